"""Pages of the documentation: their links, names, messages and examples are right."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import posh_reward
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_metric import load_metric
from posh_reward.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("research/results/*.md"),
    ROOT / "data" / "README.md",
]  # fmt: skip
FOLDERS = (
    "posh_reward", "tools", "research", "tests", "docs", "recipes", "configs", "slurm", "data",
)  # fmt: skip


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_api_has_every_public_name() -> None:
    names = set(re.findall(r"^::: posh_reward\.(\w+)$", read("docs/api.md"), re.MULTILINE))
    errors = {name for name in posh_reward.__all__ if name.endswith("Error")}
    assert names == {*posh_reward.__all__, "errors"} - errors


def test_files_that_pages_on_the_code_name_exist() -> None:
    page = read("docs/architecture.md") + read("CONTRIBUTING.md")
    names = re.findall(r"`([\w./*]+(?:/|\.(?:py|txt|dot)))`", page)
    names += re.findall(r"\]\(([\w./]+)\)", page)
    there = [f"/{path.relative_to(ROOT)}" for f in FOLDERS for path in (ROOT / f).rglob("*")]
    there += [f"/{path.name}" for path in ROOT.iterdir()]
    wanted = {name: "*/" + name.rstrip("/") for name in names}
    assert len(wanted) > 40
    assert [n for n, path in wanted.items() if not any(fnmatch(each, path) for each in there)] == []


def slug(heading: str) -> str:
    """The anchor that GitHub and MkDocs give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_links_lead_to_a_file_and_a_heading_of_it() -> None:
    broken = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if link.startswith("http"):
                continue
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            found = target.exists()
            if found and anchor:
                text = target.read_text(encoding="utf-8")
                found = anchor in map(slug, re.findall(r"(?m)^#+ (.*)$", text))
            if not found:
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_messages_to_look_up_are_those_of_the_code() -> None:
    messages = re.findall(r"^\| `([^`]+)` \|", read("docs/troubleshooting.md"), re.MULTILINE)
    assert len(messages) >= 12
    code = "".join(path.read_text("utf-8") for path in (ROOT / "posh_reward").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)  # adjacent literals are one text
    assert [message for message in messages if message not in joined] == []


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", read(page))


def test_proves_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("docs/prove.md", "python")[0], {"__name__": "page"})
    assert capsys.readouterr().out == blocks("docs/prove.md", "text")[0]


def test_python_of_other_metrics_prints_scores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec("\n".join(blocks("docs/other_metrics.md", "python")), {})
    said = capsys.readouterr().out
    assert said.startswith("3.40 None\ncorrectness 3.20 sigma 0.40 weight 0.20\n")
    assert "harmonic|model:fake-model-1|gamma:0.75|" in said
    assert said.endswith(f"4 {4 / 15} {{'M1': 2, 'M2': 0, 'M3': 0, 'M4': 1, 'M5': 1}}\n")


def test_the_published_metric_is_one_settings_file() -> None:
    settings = read_settings(ROOT / "configs" / "metric" / "published.yaml")
    assert settings["judge"]["model"] == "Qwen/Qwen3-14B"
    assert settings["judge"]["reading"] == "top-20"
    assert (settings["parser"], settings["coref"]) == ("en_core_web_trf", "maverick")
    # Maverick has an environment of its own, which is not here.
    posh = load_metric("published", coref="none")
    assert isinstance(posh.judge, PromptJudge), "nothing is loaded before it is asked"
