"""Every link between pages leads to a file, and to a heading of it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("research/results/*.md"),
    ROOT / "data" / "README.md",
]  # fmt: skip


def slug(heading: str) -> str:
    """The anchor that GitHub and MkDocs give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_links_between_pages_lead_somewhere() -> None:
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
