"""Scores <-> rows of a file.

A scored row has ``id``, ``model`` and ``image`` if the input has them, ``generation``,
``reference``, the scores ``mistakes``, ``omissions`` and ``overall`` (0.2 to 1, higher is better;
null where there is none, with ``failure_kind`` and ``failure``), the number of elements on each
side, ``unparsed`` and ``signature``, and on request the ``elements``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.rows.journal import Row
from posh_reward.study.rows.pairs import Pair
from posh_reward.types import Element, Failure, Scores

AXES = ("mistakes", "omissions", "overall")
"""Precision, recall and f1 under the names that raters know them by; higher is better."""
COUNTS = ("generation_elements", "reference_elements", "unparsed")
NEEDED = ("generation", "reference", "failure", "signature", *AXES)


def scored_row(pair: Pair, scores: Scores, *, elements: bool) -> Row:
    """One row of output."""
    row: Row = {
        **pair.head,
        **dict(zip(AXES, (scores.precision, scores.recall, scores.f1), strict=True)),
        "generation_elements": scores.count("precision"),
        "reference_elements": scores.count("recall"),
        **_failure_columns(scores.failure),
        "unparsed": scores.unparsed,
        "signature": scores.signature,
    }
    if elements:
        row["elements"] = [_element_row(element) for element in scores.elements]
    return row


def scores_of(row: Mapping[str, Any]) -> Scores:
    """The scores that a scored row was written from; nothing is judged again.

    Raises:
        InputError: it is not a scored row; the message has what is wrong.
    """
    missing = [name for name in NEEDED if name not in row]
    if missing:
        raise InputError(f"it lacks {', '.join(missing)}")
    try:
        return Scores(
            precision=_score(row["mistakes"]),
            recall=_score(row["omissions"]),
            f1=_score(row["overall"]),
            signature=_text(row["signature"]),
            elements=tuple(_element(element) for element in row.get("elements") or ()),
            failure=_failure(row),
            unparsed=int(row.get("unparsed") or 0),
            generation=_text(row["generation"] or "").strip(),
            reference=_text(row["reference"] or "").strip(),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{type(error).__name__}: {error}") from None


def typed(row: Row) -> Row:
    """A scored row as it was before CSV made texts of everything."""
    read = dict(row)
    for column in (*AXES, *COUNTS):
        if isinstance(read.get(column), str):
            try:
                read[column] = float(read[column]) if read[column] else None
            except ValueError:
                raise InputError(f"{column} is {read[column]!r}, which is not a number") from None
    if isinstance(read.get("elements"), str):
        try:
            read["elements"] = json.loads(read["elements"])
        except (ValueError, RecursionError) as error:
            raise InputError(f"its elements are not JSON ({error})") from None
    for column in ("failure", "failure_kind"):
        read[column] = read.get(column) or None
    return read


def _failure_columns(failure: Failure | None) -> Row:
    if failure is None:
        return {"failure_kind": None, "failure": None}
    return {"failure_kind": failure.kind, "failure": failure.detail}


def _failure(row: Mapping[str, Any]) -> Failure | None:
    if row.get("failure") is None:
        return None
    return Failure(row.get("failure_kind") or "error", _text(row["failure"]))


def _element_row(element: Element) -> Row:
    return {**asdict(element), **_failure_columns(element.failure)}


def _element(row: Mapping[str, Any]) -> Element:
    fields = {name: value for name, value in row.items() if name != "failure_kind"}
    spans = tuple((int(start), int(end)) for start, end in row["spans"])
    grade = row["grade"]
    if grade is not None and not 1 <= grade <= 5:
        raise ValueError(f"an element has the grade {grade!r}")
    return Element(**{**fields, "spans": spans, "failure": _failure(row)})


def _score(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a score is {value!r}")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
