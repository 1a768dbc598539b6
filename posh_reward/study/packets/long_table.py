"""Answers and the key -> one row per answer to a question, and a codebook, for R and pandas.

UTF-8 without a byte order mark, commas between cells, decimal points and ``NA`` for missing values:
``read.csv(FILE)`` and ``pandas.read_csv(FILE)`` read it as it is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from posh_reward.study.packets.rater_texts import AXES, VALUES
from posh_reward.study.packets.study_records import (
    PacketKey,
    RaterAnswer,
    comparisons,
    unmarked_share,
)
from posh_reward.study.rows.tables import Row, guard

HEAD = ("column", "type", "meaning", "values")
CODEBOOK = tuple(
    (*(cell.strip() for cell in line.split("|")),)
    for line in """\
packet     | text    | name of the packet                      |
rater      | text    | who answered                            |
task       | text    | opaque id of the task, as in the rater's file |
order      | integer | place of the task on the rater's page   | from 1
item       | text    | id of the image                         |
form       | text    | kind of task                            | coarse: two texts compared; \
ranking: two of three, a preference is the distance of their places; granular: words marked in one
axis       | text    | question, or side that is marked        | mistakes, omissions, overall
first      | text    | model shown as #1, or the only one      |
second     | text    | model shown as #2                       | NA in granular tasks
choice     | integer | answer as given                         | -2 to 2; above 0: #1 is better; \
NA in granular tasks
earlier    | text    | model named first in the study          | NA in granular tasks
later      | text    | model named second                      | NA in granular tasks
preference | integer | answer towards the later model          | -2 to 2; above 0: later is better
marks      | integer | marked spans                            | NA in coarse tasks
unmarked   | number  | share of words left unmarked            | 0 to 1, higher is better
seconds    | number  | time that the task was in view          | NA where the tool stores none
comment    | text    | the rater's comment; a quote precedes what looks like a formula |
""".splitlines()
)
"""Column, type, meaning, values."""


def long_rows(answers: Sequence[RaterAnswer], key: PacketKey) -> Iterator[Row]:
    """One row per answer to each question; none for equal texts, which are not asked about."""
    tasks = key.by_task()
    granular = (answer for answer in answers if answer.marks is not None)
    for answer in (*comparisons(answers, key), *granular):
        head = {
            "packet": key.packet, "rater": answer.rater, "task": answer.task.id,
            "order": tasks[answer.task.id][1], "item": answer.task.item,
        }  # fmt: skip
        tail = {"seconds": answer.seconds, "comment": answer.comment}
        for row in _coarse(answer, key) if answer.marks is None else _granular(answer, key):
            yield {**head, **row, **tail}


def _coarse(answer: RaterAnswer, key: PacketKey) -> Iterator[Row]:
    first, second = answer.task.models
    earlier, later = key.in_order(answer.task.models)
    for axis, preference in answer.towards(later).items():
        yield {
            "form": key.raters[answer.rater].form, "axis": axis, "first": first, "second": second,
            "choice": answer.preferences[axis], "earlier": earlier, "later": later,
            "preference": preference,
        }  # fmt: skip


def _granular(answer: RaterAnswer, key: PacketKey) -> Iterator[Row]:
    [model] = answer.task.models
    texts = key.items[answer.task.item].by_side(model)
    for side in key.sides:
        spans = getattr(answer.marks, side)
        yield {
            "form": "granular", "axis": side, "first": model, "marks": len(spans),
            "unmarked": round(unmarked_share(texts[side], spans), 6),
        }  # fmt: skip


def long_csv(rows: Iterable[Mapping[str, object]]) -> bytes:
    """The rows as CSV, with a header."""
    return _csv((name for name, *_ in CODEBOOK), rows)


def codebook_csv(key: PacketKey) -> bytes:
    """Meaning of each column, and of each choice in the words that raters read."""
    rows = [dict(zip(HEAD, row, strict=True)) for row in CODEBOOK]
    labels = (f"{value}: {label}" for value, label in zip(VALUES, key.texts.choices, strict=True))
    rows.append({"column": "choice", "type": "labels", "values": "; ".join(labels)})
    rows += [
        {"column": "axis", "type": axis,
         "meaning": key.texts.question(axis, reference=key.reference)}
        for axis in AXES
    ]  # fmt: skip
    return _csv(HEAD, rows)


def _csv(columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), restval="NA", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    if value is None:
        return "NA"
    # On one line, since R's readers count lines; guarded, so that no spreadsheet runs it.
    return guard(" ".join(value.split())) if isinstance(value, str) else value
