"""CONTRIBUTING and the page on the architecture name files and folders that exist."""

import re
from fnmatch import fnmatch
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
ROOMS = ("posh_reward", "tools", "research", "tests", "docs", "recipes", "configs", "slurm")


def test_the_files_that_it_names_exist() -> None:
    pages = (CHECKOUT / "docs" / "architecture.md", CHECKOUT / "CONTRIBUTING.md")
    page = "".join(path.read_text(encoding="utf-8") for path in pages)
    names = re.findall(r"`([\w./*]+(?:/|\.(?:py|txt|dot)))`", page)
    names += re.findall(r"\]\(([\w./]+)\)", page)
    there = [f"/{path.relative_to(CHECKOUT)}" for r in ROOMS for path in (CHECKOUT / r).rglob("*")]
    there += [f"/{path.name}" for path in CHECKOUT.iterdir()]
    wanted = {name: "*/" + name.rstrip("/") for name in names}
    assert len(wanted) > 40
    assert [n for n, path in wanted.items() if not any(fnmatch(each, path) for each in there)] == []
