"""MkDocs hook: pages from outside docs/ become part of the site, without barriers (make docs)."""

from __future__ import annotations

import re
from importlib import import_module
from os.path import relpath
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""A link to a file, or a picture: its text, the file, the heading."""


def place_in_site(path: Path) -> str | None:
    """Where a file of the checkout stands in the site; None if it is not part of it."""
    if path == ROOT / "data" / "README.md":
        return "data.md"
    for folder, place in ((ROOT / "docs", ""), (ROOT / "research" / "results", "results/")):
        if path.is_relative_to(folder):
            return place + path.relative_to(folder).as_posix()
    return None


def on_files(files: Any, config: Any) -> None:
    """Add the pages and pictures that are not in docs/."""
    generated = import_module("mkdocs.structure.files").File.generated
    for path in (ROOT / "data" / "README.md", *sorted((ROOT / "research" / "results").iterdir())):
        files.append(generated(config, place_in_site(path), abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files of the checkout into links of the site, or into mere text."""
    source = Path(page.file.abs_src_path)

    def lead_to_place(link: re.Match[str]) -> str:
        text, name, heading = link[1], link[2], link[3] or ""
        target = (source.parent / name).resolve()
        place = place_in_site(target)
        if place is None:
            return text if target.exists() else link[0]
        here = Path(place_in_site(source) or "").parent
        return f"[{text}]({relpath(place, here)}{heading})"

    return LINK.sub(lead_to_place, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn an empty header of a table, which says nothing of its column, into a cell."""
    return re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)


def name_search(output: str, **_: Any) -> str:
    """Name the search for screen readers, as the theme does not."""
    search = 'data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')


on_post_page = on_post_template = name_search  # of pages, and of 404.html
