# python recipes/score_heldout.py runs/generations.jsonl runs/scores.jsonl
"""Scores a file of generations on held-out images, and prints the leaderboard.

Writes one row per generation (JSON lines) and, with ``--page``, a page that shows the texts with
their mistakes and the references with their omissions. Killed, it resumes where it was.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

from posh_reward import PoSh
from posh_reward.study.heldout import score_file, scores_of, standing, table
from posh_reward.study.journal import Row
from posh_reward.study.page import Item, page


def main() -> None:
    """Reads the flags, scores, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("generations", type=Path, help="JSON lines from recipes/generate.py")
    parser.add_argument("output", type=Path, help="scored rows, JSON lines; appended to on resume")
    parser.add_argument("--judge", default="embedded")
    parser.add_argument("--parser", default="embedded", help="or a spaCy pipeline's name")
    parser.add_argument("--coref", default="rules")
    parser.add_argument("--page", type=Path, help="also write this HTML page")
    parser.add_argument("--page-items", type=int, default=50, help="how many pairs it shows")
    flags = parser.parse_args()
    posh = PoSh(flags.judge, flags.parser, flags.coref)
    rows = score_file(posh, flags.generations, flags.output)
    print(table([standing(model, group) for model, group in by_model(rows)]))
    if flags.page is not None:
        flags.page.write_text(worst_first(rows, flags.page_items), encoding="utf-8")
        print(f"page: {flags.page}")


def by_model(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows grouped by the model that wrote them, in order of first appearance."""
    order = list(dict.fromkeys(row["model"] for row in rows))
    ranked = sorted(rows, key=lambda row: order.index(row["model"]))
    return [(model, list(group)) for model, group in groupby(ranked, lambda row: row["model"])]


def worst_first(rows: list[Row], count: int) -> str:
    """A page of the pairs with the lowest overall scores."""
    shown = sorted(rows, key=lambda row: row["overall"] or 0.0)[:count]
    return page([Item(f"{row['model']}: {row['uuid']}", scores_of(row)) for row in shown])


if __name__ == "__main__":
    main()
