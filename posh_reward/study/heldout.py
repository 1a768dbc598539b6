"""Generations on held-out images -> scored rows -> a table. Killed at any moment, it resumes.

Rows are JSON lines. A generation has ``uuid``, ``model``, ``generation`` and ``reference``; a
scored row adds ``mistakes``, ``omissions``, ``overall``, element counts, ``failure`` and
``signature``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metric.posh import PoSh
from posh_reward.study.bootstrap import Interval, bootstrap_mean, paired_difference
from posh_reward.study.journal import Journal, Row
from posh_reward.types import Element, Scores

BEGINS = '{"uuid": '
"""How each line begins, so that a file of somebody else's is not cut."""
NEEDED = ("uuid", "model", "generation", "reference")
AXES = ("mistakes", "omissions", "overall")
"""Precision, recall and f1 under the names that raters know them by; higher is better."""


def read_rows(path: Path, needed: Sequence[str] = NEEDED) -> list[Row]:
    """Reads JSON lines; a last line that was cut off by a kill is left out.

    Raises:
        InputError: the file is missing, or a whole line is no object with the needed keys.
    """
    if not path.is_file():
        raise InputError(f"no file {str(path)!r}: write generations with recipes/generate.py")
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path.name}, line {number}: no JSON ({error})") from None
        missing = [key for key in needed if not isinstance(row, dict) or key not in row]
        if missing:
            raise InputError(f"{path.name}, line {number}: lacks {', '.join(missing)}")
        rows.append(row)
    return rows


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends rows durably, after cutting off what a kill left of a last line."""
    with closing(Journal(path, BEGINS)) as journal:
        journal.append(rows)


def scored_row(generation: Mapping[str, Any], scores: Scores) -> Row:
    """One line of a scores file."""
    return {**{key: generation[key] for key in NEEDED}, **score_columns(scores, elements=True)}


def score_columns(scores: Scores, *, elements: bool) -> Row:
    """What a row says of its scores: axes, counts, failure, signature, and on request elements."""
    columns: Row = {
        **dict(zip(AXES, (scores.precision, scores.recall, scores.f1), strict=True)),
        "generation_elements": scores.count("precision"),
        "reference_elements": scores.count("recall"),
        "failure": scores.failure,
        "unparsed": scores.unparsed,
        "signature": scores.signature,
    }
    if elements:
        columns["elements"] = [asdict(element) for element in scores.elements]
    return columns


def scores_of(row: Mapping[str, Any]) -> Scores:
    """The scores that a scored row was written from; nothing is judged again."""
    elements = (
        Element(**{**element, "spans": tuple((start, end) for start, end in element["spans"])})
        for element in row["elements"]
    )
    return Scores(
        precision=row["mistakes"],
        recall=row["omissions"],
        f1=row["overall"],
        signature=row["signature"],
        elements=tuple(elements),
        failure=row["failure"],
        unparsed=row["unparsed"],
        generation=row["generation"].strip(),
        reference=row["reference"].strip(),
    )


def score_file(
    posh: PoSh, generations: Path, output: Path, *, batch: int = 64, progress: bool = True
) -> list[Row]:
    """Scores every generation of a file into another, and returns all scored rows.

    What ``output`` already holds is not scored again.

    Raises:
        InputError: a file is unusable, or ``output`` was scored under another signature.
    """
    from tqdm import tqdm

    wanted = read_rows(generations)
    done = read_rows(output, (*NEEDED, *AXES, "signature")) if output.exists() else []
    others = {row["signature"] for row in done} - {posh.signature}
    if others:
        raise InputError(
            f"{output.name} holds scores of another signature ({others.pop()}): "
            "score into a new file, or delete this one"
        )
    known = {_key(row) for row in done}
    left = [row for row in wanted if _key(row) not in known]
    bar = tqdm(
        total=len(wanted),
        initial=len(wanted) - len(left),
        desc="POSH",
        unit="pair",
        disable=not progress,
    )
    with bar, closing(Journal(output, BEGINS)) as journal:
        for start in range(0, len(left), batch):
            rows = left[start : start + batch]
            scores = posh.score([r["generation"] for r in rows], [r["reference"] for r in rows])
            journal.append(scored_row(r, s) for r, s in zip(rows, scores, strict=True))
            bar.update(len(rows))
    return read_rows(output)


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's means over the held-out images; higher is better on every axis."""

    model: str
    images: int
    """Those that were scored."""
    failed: int
    axes: dict[str, Interval]
    """By axis, with 95 % bootstrap intervals over images; empty if none was scored."""
    words: float
    """Mean words of a generation."""


def standing(model: str, rows: Sequence[Row]) -> Standing:
    """Means over a model's scored rows; the rows that failed are counted and left out."""
    scored = [row for row in rows if row["overall"] is not None]
    return Standing(
        model,
        len(scored),
        len(rows) - len(scored),
        {axis: bootstrap_mean([row[axis] for row in scored]) for axis in AXES if scored},
        sum(len(row["generation"].split()) for row in rows) / max(len(rows), 1),
    )


def difference(after: Sequence[Row], before: Sequence[Row], axis: str = "overall") -> Interval:
    """Paired by image: how much better ``after`` is on one axis.

    Raises:
        InputError: the two do not describe the same images.
    """
    old = {row["uuid"]: row[axis] for row in before}
    if set(old) != {row["uuid"] for row in after}:
        raise InputError("the two models described different images: score the same split")
    return paired_difference([row[axis] for row in after], [old[row["uuid"]] for row in after])


def table(standings: Sequence[Standing]) -> str:
    """A leaderboard in plain text, in the order given."""
    width = max(len("model"), *(len(s.model) for s in standings))
    lines = [f"{'model':<{width}}  {'overall':>20}  mistakes  omissions  words  images"]
    for s in standings:
        if not s.axes:
            lines.append(f"{s.model:<{width}}  none of its {s.failed} generations was scored")
            continue
        overall = s.axes["overall"]
        interval = f"{overall.mean:.3f} [{overall.low:.3f}, {overall.high:.3f}]"
        lines.append(
            f"{s.model:<{width}}  {interval:>20}  {s.axes['mistakes'].mean:>8.3f}  "
            f"{s.axes['omissions'].mean:>9.3f}  {s.words:>5.1f}  {s.images:>6}"
        )
    return "\n".join(lines)


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["uuid"]), str(row["model"])
