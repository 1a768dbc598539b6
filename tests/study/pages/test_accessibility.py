"""axe-core and the focus on every page that is no rater's, at three widths, light and dark."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from posh_reward.attack.audit import FALSE, HONEST, Outcome
from posh_reward.attack.audit import page as attack_page
from posh_reward.cli import OK, main
from posh_reward.study.packets.make import Packet
from posh_reward.study.packets.rater_answers import collect
from posh_reward.study.packets.results import results
from posh_reward.study.packets.results_page import results_page
from posh_reward.study.pages.element_marks import PairCard
from posh_reward.study.pages.element_marks import page as pair_page
from posh_reward.study.pages.html import Thumbnails
from posh_reward.study.pages.sibling_page import sibling_page
from posh_reward.study.rows.tables import Row
from tests.chromium import Browser, axe, obscured, violations
from tests.cli.running import pairs, run, write_rows
from tests.study.packets.studies import coarse, items, packet, saved
from tests.study.pages.test_pair_page import SCORES

TEXTS = {"question": "Which colour?", "generation": "A red square. " * 20,
         "reference": "A red square on a green ground."}  # fmt: skip


def of_sibling(metric: str, **content: object) -> Callable[[Path], str]:
    """A page of two models' rows about one image, and one row without a score."""

    def page(folder: Path) -> str:
        Image.new("RGB", (60, 40), "red").save(folder / "red.png")
        row: Row = {"id": "p1", "image": "red.png", "signature": f"{metric}|model:x", **TEXTS}
        rows = [{**row, **content, "model": name} for name in ("sft", "tuned")]
        rows.append({**row, "id": "p2", "model": "sft", "failure": "the text is missing"})
        return sibling_page(rows, metric, images=Thumbnails(folder))

    return page


def of_study(made: Packet) -> Callable[[Path], str]:
    """The results of a study in which the later model wins, or each rater marks a word."""

    def page(folder: Path) -> str:
        for name, rater in made.key.raters.items():
            answers = [
                {**coarse(made.key, task), "overall": -1} if rater.form == "coarse" else
                {"task": task.id, "mistakes": [[0, 1]], "omissions": [], "seconds": 1}
                for task in rater.tasks
            ]  # fmt: skip
            (folder / f"{name}.json").write_bytes(saved(made.key, name, answers))
        (folder / "damaged.json").write_bytes(b"{")
        files = sorted(folder.glob("*.json"))
        return results_page(results(collect(files, made.key), made.key, readings=2))

    return page


def of_command(*arguments: str) -> Callable[[Path], str]:
    """The page that a command about scored pairs writes."""

    def page(folder: Path) -> str:
        rows = [{**row, "model": "sft", "generation1": row["generation"], "generation2": "A dog."}
                for row in pairs(8)]  # fmt: skip
        source, scores = write_rows(folder / "in.jsonl", rows), folder / "scores.jsonl"
        out = folder / "out.html"
        if arguments[0] == "report":
            assert run("score", source, "-o", scores, "--elements", "--quiet") == OK
            assert main(["report", str(scores), "-o", str(out)]) == OK
        else:
            assert main([*arguments, str(source), "--page", str(out)]) == OK
        return out.read_text("utf-8")

    return page


THREE = ("a", "b", "c")
PAGES: dict[str, Callable[[Path], str]] = {
    "harmonic": of_sibling("harmonic", overall=3.2, criteria=[
        {"criterion": "correctness", "mean": 2.5, "sigma": 0.3, "weight": 0.6, "mass": 0.2},
        {"criterion": "clarity", "mean": 4, "sigma": 0.0, "weight": 0.4, "reason": "It is clear."},
    ]),
    "rubric": of_sibling("rubric", total=3, share=0.6, metric_points=[
        {"metric": "M1", "title": "Class", "points": 1, "lowest": 0, "highest": 2,
         "feedback": "It is a bird."},
        {"metric": "M2", "title": "Family", "points": 2, "lowest": 0, "highest": 3,
         "feedback": ""},
    ]),
    "prove": of_sibling("prove", average=0.7, helpfulness=0.8, truthfulness=0.6, response="Red.",
        answer_tuples=[{"tuple": ["dress", "red"], "score": 0.9, "closest": ["dress"]}],
        claims=[{"tuple": ["dog"], "score": 0.3, "witness": "caption", "closest": None,
                 "caption": 0.3, "image": 0.2}]),
    "report": of_command("report"),
    "pair": lambda _: pair_page([PairCard("A pair", SCORES)]),
    "attack": lambda _: attack_page({"the true text": 1.0}, [
        Outcome(FALSE, "blind", "A dog.", 0.5, 0.4, None, "found", 6, "x " * 200),
        Outcome(HONEST, "format", "links", 0.5, 0.6, None, "held", 6, "A dog."),
    ], ["posh|x"]),
    "coarse results": of_study(packet(8)),
    "granular results": of_study(packet(3, coarse=0, granular=1)),
    "results of three models": of_study(
        packet(found=replace(items(8, THREE), incomplete=("x",)), coarse=6)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_the_focus_is_seen(
    chromium: Browser, tmp_path: Path, name: str, scheme: str
) -> None:
    script = axe()
    pytest.importorskip("choix")
    (tmp_path / "page.html").write_text(PAGES[name](tmp_path), encoding="utf-8")
    media = {"name": "prefers-color-scheme", "value": scheme}
    chromium.call("Emulation.setEmulatedMedia", features=[media])
    for width in (1280, 640, 390):
        chromium.resize(width, 800)
        chromium.open(tmp_path / "page.html")
        assert violations(chromium, script) == []
        assert chromium.run("document.documentElement.scrollWidth") <= width
        hidden = []
        for _ in range(25):
            chromium.press("Tab", 9)
            hidden += [it] if (it := obscured(chromium)) else []
        assert hidden == []
    chromium.call("Emulation.setEmulatedMedia", features=[])
