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
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from posh_reward.errors import InputError, JudgeError
from posh_reward.types import FailureKind

RECORD_CLASSES = {
    "posh": "posh_reward.types:Scores",
    "harmonic": "posh_reward.other_metrics.harmonic_eval:HarmonicScores",
    "rubric": "posh_reward.other_metrics.rubric_judge:RubricScores",
    "prove": "posh_reward.other_metrics.prove.prove:ProveScores",
}
"""Metric, the first word of a signature -> ``module:class`` of its scores."""
EARLIER_NAMES = {
    "posh": {
        "mistakes": "precision", "omissions": "recall", "overall": "f1", "asked": "direct",
        "seen": "image_grade", "stated": "reference_grade",
    },
    "harmonic": {},
    "rubric": {"given": "metric_points"},
    "prove": {"wanted": "answer_tuples", "picture": "image"},
}  # fmt: skip
"""Names before 0.2, with which files are read, too -> names of fields, at any depth."""
NEW_FIELDS = {"posh": ("sentences",)}
"""Metric -> fields that earlier rows of the same signature lack."""
STRIPPED_FIELDS = ("generation", "reference")
"""Texts that files have as they were given."""
ERROR_ENDINGS = {
    "bool_type": "not true or false",
    "dataclass_type": "not a record",
    "finite_number": "not a finite number",
    "float_type": "not a number",
    "int_type": "not a whole number",
    "string_type": "not a text",
    "tuple_type": "not a list",
}
"""pydantic's error types -> the end of a message."""


def read_metric_name(row: Mapping[str, Any]) -> str:
    """Read a row's metric from its signature; "" without one."""
    signature = row.get("signature")
    return signature.partition("|")[0] if isinstance(signature, str) else ""


def record_class(metric: str) -> type[Any]:
    if metric not in RECORD_CLASSES:
        raise JudgeError(f"unknown metric {metric!r}: expected one of {', '.join(RECORD_CLASSES)}")
    module, _, name = RECORD_CLASSES[metric].partition(":")
    record: type[Any] = getattr(import_module(module), name)
    return record


@cache
def list_record_fields(metric: str) -> dict[str, Any]:
    """Fields of a metric's scores -> their types."""
    return get_type_hints(record_class(metric))


@cache
def records_adapter(metric: str) -> Any:
    """Pydantic's adapter for lists of a metric's scores."""
    from pydantic import ConfigDict, TypeAdapter

    record: Any = record_class(metric)
    return TypeAdapter(list[record], config=ConfigDict(strict=True, allow_inf_nan=False))


def write_row(metric: str, scores: Any) -> dict[str, Any]:
    """A metric's scores as plain data, for JSON."""
    row: dict[str, Any] = records_adapter(metric).dump_python([scores], mode="json")[0]
    return row


def read_scores(metric: str, row: object) -> Any:
    """The scores that a row was written from; columns without a value have the field's default."""
    from pydantic import ValidationError

    if not isinstance(row, dict):
        raise InputError(f"{short(row)} is not a record")
    try:
        current = _rename_fields(row, EARLIER_NAMES[metric])
        record: dict[str, Any] = {}
        for name, hint in list_record_fields(metric).items():
            value = current.get(name)
            if name not in current or (value is None and type(None) not in list_alternatives(hint)):
                continue
            if name in STRIPPED_FIELDS and isinstance(value, str):
                value = value.strip()
            record[name] = value
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
    why = ERROR_ENDINGS.get(first["type"]) or first["msg"].replace("Input should", "it should")
    raise InputError(f"{place} is {short(first['input'])}, {why}")


def list_alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have: ``float | None`` -> float, NoneType."""
    if get_origin(hint) in (Union, UnionType):
        return get_args(hint)
    return (hint,)


def find_main_type(hint: Any) -> Any:
    """The type of a value that is not None; ``str`` for a choice of texts."""
    first = list_alternatives(hint)[0]
    if get_origin(first) is Literal:
        return str
    return first


def find_failure_reason(row: Mapping[str, Any]) -> str | None:
    """Reason why a row lacks scores; None if it does not."""
    failure = row["failure"]
    return None if failure is None else str(failure["detail"])


def _rename_fields(value: Any, names: Mapping[str, str]) -> Any:
    """A value of a file in today's layout: fields and failures had other names before 0.2."""
    if isinstance(value, list):
        return [_rename_fields(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    row: dict[str, Any] = {}
    for name, each in value.items():
        current = names.get(name, name)
        if current in value:  # the file has the field of today, too
            current = name
        row[current] = _rename_fields(each, names)
    if isinstance(row.get("failure"), str):
        kinds = (kind for kind in get_args(FailureKind) if kind == row.get("failure_kind"))
        row["failure"] = {"kind": next(kinds, "error"), "detail": row["failure"]}
    if row.get("witness") == "picture":
        row["witness"] = "image"
    return row
