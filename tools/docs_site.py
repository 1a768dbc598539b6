"""MkDocs hook: research/results/ becomes part of the site, so that links to it work (make docs)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "research" / "results"


def on_files(files: Any, config: Any) -> None:
    """Add the pages and pictures of research/results/, as results/."""
    generated = import_module("mkdocs.structure.files").File.generated
    for path in sorted(RESULTS.iterdir()):
        files.append(generated(config, f"results/{path.name}", abs_src_path=str(path)))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links between docs/ and research/results/ into links of the site."""
    inward = markdown.replace("](../research/results/", "](results/")
    return inward.replace("](../../docs/", "](../")
