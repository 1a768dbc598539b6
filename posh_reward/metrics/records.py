"""Scores as records: read and written with the same fields in files, pages and replies.

A new field of a score appears in all of them without being named again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from reprlib import repr as short
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from posh_reward.errors import InputError, JudgeError
from posh_reward.types import FailureKind

if TYPE_CHECKING:
    pass


RECORDS = {
    "posh": "posh_reward.types:Scores",
    "harmonic": "posh_reward.other_metrics.harmonic_eval:HarmonicScores",
    "rubric": "posh_reward.other_metrics.rubric_judge:RubricScores",
    "prove": "posh_reward.other_metrics.prove.prove:ProveScores",
}
"""Metric, the first word of a signature -> ``module:class`` of its scores."""
EARLIER = {
    "posh": {
        "mistakes": "precision", "omissions": "recall", "overall": "f1", "asked": "direct",
        "seen": "image_grade", "stated": "reference_grade",
    },
    "harmonic": {},
    "rubric": {"given": "metric_points"},
    "prove": {"wanted": "answer_tuples", "picture": "image"},
}  # fmt: skip
"""Names before 0.2, with which files are read, too -> names of fields, at any depth."""
STRIPPED = ("generation", "reference")
"""Texts that files have as they were given."""
UNSET = object()
WRONG = {
    "bool_type": "not true or false",
    "dataclass_type": "not a record",
    "finite_number": "not a finite number",
    "float_type": "not a number",
    "int_type": "not a whole number",
    "string_type": "not a text",
    "tuple_type": "not a list",
}
"""pydantic's error types -> the end of a message."""


def metric_of(row: Mapping[str, Any]) -> str:
    """Read a row's metric from its signature; "" without one."""
    signature = row.get("signature")
    return signature.partition("|")[0] if isinstance(signature, str) else ""


def record_class(metric: str) -> type[Any]:
    if metric not in RECORDS:
        raise JudgeError(f"unknown metric {metric!r}: expected one of {', '.join(RECORDS)}")
    module, _, name = RECORDS[metric].partition(":")
    record: type[Any] = getattr(import_module(module), name)
    return record


@cache
def fields_of_record(metric: str) -> dict[str, Any]:
    """Fields of a metric's scores -> their types."""
    return get_type_hints(record_class(metric))


@cache
def records_adapter(metric: str) -> Any:
    """Pydantic's adapter for lists of a metric's scores."""
    from pydantic import ConfigDict, TypeAdapter

    record: Any = record_class(metric)
    return TypeAdapter(list[record], config=ConfigDict(strict=True, allow_inf_nan=False))


def row_of(metric: str, scores: Any) -> dict[str, Any]:
    """A metric's scores as plain data, for JSON."""
    row: dict[str, Any] = records_adapter(metric).dump_python([scores], mode="json")[0]
    return row


def read_scores(metric: str, row: object) -> Any:
    """The scores that a row was written from; columns without a value have the field's default."""
    from pydantic import ValidationError

    if not isinstance(row, dict):
        raise InputError(f"{short(row)} is not a record")
    try:
        current = _renamed(row, EARLIER[metric])
        record = {
            name: value.strip() if name in STRIPPED and isinstance(value, str) else value
            for name, hint in fields_of_record(metric).items()
            if (value := current.get(name, UNSET)) is not UNSET
            and (value is not None or type(None) in alternatives(hint))
        }
        # As JSON, in which pydantic is strict about values, and takes objects for records. Half a
        # surrogate pair, which no page can show, becomes a question mark: spans stay in place.
        text = json.dumps([record], ensure_ascii=False, default=short).encode("utf-8", "replace")
        [scores] = records_adapter(metric).validate_json(text)
    except RecursionError:
        raise InputError("it is nested too deeply") from None
    except ValidationError as error:
        problems = [(".".join(map(str, each["loc"][1:])), each) for each in error.errors()]
    else:
        return scores
    if missing := [place for place, each in problems if each["type"] == "missing"]:
        raise InputError(f"it lacks {', '.join(missing)}")
    place, first = problems[0]
    why = WRONG.get(first["type"]) or first["msg"].replace("Input should", "it should")
    raise InputError(f"{place} is {short(first['input'])}, {why}")


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have: ``float | None`` -> float, NoneType."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def main_type(hint: Any) -> Any:
    """The type of a value that is not None; ``str`` for a choice of texts."""
    first = alternatives(hint)[0]
    return str if get_origin(first) is Literal else first


def reason_of(row: Mapping[str, Any]) -> str | None:
    """Reason why a row lacks scores; None if it does not."""
    failure = row["failure"]
    return None if failure is None else str(failure["detail"])


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A value of a file in today's layout: fields and failures had other names before 0.2."""
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    row = {
        name if names.get(name) in value else names.get(name, name): _renamed(each, names)
        for name, each in value.items()
    }
    if isinstance(row.get("failure"), str):
        kinds = (kind for kind in get_args(FailureKind) if kind == row.get("failure_kind"))
        row["failure"] = {"kind": next(kinds, "error"), "detail": row["failure"]}
    if row.get("witness") == "picture":
        row["witness"] = "image"
    return row
