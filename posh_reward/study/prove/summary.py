"""Rows of PROVE -> what a command says of them at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from posh_reward.study.rows.journal import Row
from posh_reward.study.rows.standings import Unscored, unscored_lines


def made_summary(rows: Iterable[Row]) -> str:
    """Counts of one run: captions, candidates, kept, and dropped by reason."""
    rows = list(rows)
    pairs = [pair for row in rows for pair in row["pairs"]]
    dropped = Counter(pair["dropped"] for pair in pairs)
    kept = dropped.pop(None, 0)
    failed = sum(row["failure"] is not None for row in rows)
    lines = [
        f"{len(rows):,} captions ({failed:,} failed), {len(pairs):,} candidates, {kept:,} kept"
    ]
    lines += [f"  {reason}: {count:,}" for reason, count in dropped.most_common()]
    unjudged = Counter(pair["why"] for pair in pairs if pair["dropped"] == "unjudged")
    lines += [f"  unjudged, {count:,} of them: {why}" for why, count in unjudged.most_common(3)]
    return "\n".join([*lines, *unscored_lines(_failures(rows), "no pairs")])


def scored_summary(rows: Iterable[Row]) -> str:
    """Means over the rows that have scores, by model if there are several (paper, Table 1).

    Rows that have no average come after them, with their reasons.
    """
    rows = list(rows)
    models = dict.fromkeys(row.get("model") for row in rows)
    lines = [_means([row for row in rows if row.get("model") == model], model) for model in models]
    return "\n".join([*lines, *unscored_lines(_failures(rows))])


def _failures(rows: Iterable[Row]) -> dict[str, Unscored]:
    """Reason -> the rows that failed for it."""
    found: dict[str, Unscored] = {}
    for row in rows:
        if row["failure"] is not None:
            found.setdefault(row["failure"], Unscored()).add(row["id"])
    return found


def _means(rows: list[Row], model: Any) -> str:
    shown = [f"{model}: " if model is not None else ""]
    for name in ("helpfulness", "truthfulness", "average"):
        values = [row[name] for row in rows if row[name] is not None]
        mean = f"{sum(values) / len(values):.3f}" if values else "none"
        shown.append(f"{name} {mean} (of {len(values):,})  ")
    return "".join(shown).rstrip() + "; higher is better"
