"""Common parts of all metrics: protocol, checks, prompts, signatures, settings, records.

Records of scores have the same fields in files, pages and replies as in what ``score`` returns: a
new field appears in all of them without being named again.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module, resources
from os import PathLike
from pathlib import Path
from reprlib import repr as short
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from posh_reward.errors import InputError, JudgeError, installed
from posh_reward.run_record import RUN_FILE, UNCHECKED, read_run
from posh_reward.settings import ENDINGS, make, read_settings, refuse_harm
from posh_reward.shipped import settings_names, shipped
from posh_reward.text_values import ONE_STRING, as_column, read_texts
from posh_reward.types import Failure, FailureKind, Usage

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh

logger = logging.getLogger(__name__)


class MetricResult(Protocol):
    """The part of a metric's result for one pair that all metrics share."""

    @property
    def failure(self) -> Failure | None:
        """Reason for a missing score; None if there is a score."""


S = TypeVar("S", bound=MetricResult, contravariant=True)


class Figures(Protocol[S]):
    """A metric as a reward sees it: name, signature, usage, and figures for a training log."""

    @property
    def name(self) -> str:
        """First word of its signatures and log names."""

    @property
    def signature(self) -> str:
        """Settings and versions needed to reproduce a score; part of every score."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds of its judge so far."""

    def figures(self, scores: Sequence[S]) -> dict[str, float]:
        """Figures of one call, such as means; every call returns the same names."""

    def columns(self, scores: Sequence[S]) -> dict[str, list[float | None]]:
        """Figures per completion; every call returns the same names."""


def mean(values: Sequence[float | None]) -> float:
    """Mean of the values that are not None; NaN if there are none."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


@cache
def package_version() -> str:
    """Version of posh-reward; "unknown" if it runs from a folder without being installed."""
    return installed("posh-reward") or "unknown"


def signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, with the fields in order."""
    versioned = {**fields, "version": package_version()}
    return "|".join([metric, *(f"{key}:{value}" for key, value in versioned.items())])


def field_of(signature: str, key: str) -> str | None:
    """Value of a field of a signature; None if it has no such field."""
    match = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return match[1] if match else None


SEVERAL = "|references:joined"
"""Part of the signature of a row with several references, which the same metric has scored."""


def as_lists(**values: object) -> list[list[Any]]:
    """Return arguments as lists; raise ``InputError`` if one is none, or if lengths differ."""
    lists: dict[str, list[Any]] = {}
    for name, value in values.items():
        column = as_column(value)
        if isinstance(column, str):
            raise InputError(f"{name} {column}")
        lists[name] = column
    check_lengths(**lists)
    check_same_index(**values)
    return list(lists.values())


def check_lengths(**lists: Sequence[object]) -> None:
    """Check that lists have equal lengths; one may load its values as they are read."""
    for name, each in lists.items():
        if isinstance(each, str | bytes):
            raise InputError(f"{name} {ONE_STRING}, [{each[:40]!r}]")
    (first, count), *others = ((name, len(each)) for name, each in lists.items())
    for name, other in others:
        if other != count:
            raise InputError(f"{count} {first} but {other} {name}: pass one for each")


def check_same_index(**values: Any) -> None:
    """Refuse pandas Series whose indexes disagree: they would be paired by their order."""
    series = [
        (name, list(each.index)) for name, each in values.items() if type(each).__name__ == "Series"
    ]
    for name, index in series[1:]:
        first, first_index = series[0]
        if index != first_index:
            raise InputError(
                f"{first} and {name} are Series with different indexes, and would be paired by "
                f"their order: align them, as with {name}.loc[{first}.index]"
            )


def check_sizes(**sizes: int) -> None:
    """Check that arguments are whole numbers of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, SupportsIndex) or size < 1:
            raise InputError(f"{name} is {size!r}: use a whole number, 1 or more")


def usable(value: object, what: str) -> str | Failure:
    """Read a text for use in a prompt, and strip it; a failure about ``what`` if it is unusable."""
    from posh_reward.graph.reader import stripped_text  # slow: imports the graph rules

    stripped = stripped_text(value)
    return stripped.about(what) if isinstance(stripped, Failure) else stripped


def read_reference(value: object) -> str | Failure:
    """Read a reference: a text, or several of one image, which become one."""
    texts = read_texts(value)
    return texts if isinstance(texts, Failure) else joined_references(texts)


def joined_references(references: Sequence[str]) -> str:
    """Join an image's references into one text of sentences; a single one stays as it is."""
    if len(references) == 1:
        return references[0]
    return " ".join(reference.strip().rstrip(" .") + "." for reference in references)


@cache
def wording(folder: str, name: str) -> str:
    """Text of ``prompts/NAME.txt`` in a folder of this package, such as "metrics/posh"."""
    file = resources.files("posh_reward").joinpath(f"{folder}/prompts/{name}.txt")
    return file.read_text(encoding="utf-8")


@cache
def sections(folder: str, name: str) -> Mapping[str, str]:
    """Map each ``[heading]`` of a folder's ``prompts/NAME.txt`` to the text below it."""
    pieces = re.split(r"^\[([a-z._]+)\]\n", wording(folder, name), flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value in a single pass; other braces, such as JSON's, stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def _setting(help: str, metavar: str = "NAME") -> Any:
    return field(default=None, metadata={"help": help, "metavar": metavar})


@dataclass
class MetricSettings:
    """Arguments of ``PoSh`` that the command and the recipes offer as flags, with their help.

    None leaves an argument to the settings file, or else to the default of ``PoSh``.
    """

    judge: str | None = _setting(
        "judge: embedded (default, needs no download), vllm (Qwen3-14B), transformers "
        "(Qwen3-1.7B), a server's address (http://localhost:8080), or a settings file"
    )
    parser: str | None = _setting(
        "parser: embedded (default), or an installed spaCy pipeline (the paper's: en_core_web_trf)"
    )
    coref: str | None = _setting(
        "coreference resolver: rules (default, needs no download), none, or maverick, which needs "
        "a setup (docs/coref.md)"
    )
    preset: str | None = _setting(
        "wording of questions and rules of graphs: released (default), paper, prefix-first"
    )
    witness: str | None = _setting(
        "model to ask about the image where the reference does not support the text: judge, if it "
        "sees images; another model's settings file; or the name of drawn images, such as "
        "scenes:plain=1 (default: none)"
    )
    store: str | None = _setting(
        "file that keeps scene graphs and language models' answers for other runs; created if "
        "missing",
        "FILE",
    )
    processes: int | None = _setting(
        "worker processes that read texts, and judge by the embedded judge (default: as many as "
        "this process has cores and memory for, once there is work for them; 1: none)",
        "N",
    )


def metric_flags(flags: object) -> dict[str, Any]:
    """Pick the metric's settings from parsed flags; None for unused flags."""
    return {f.name: getattr(flags, f.name, None) for f in fields(MetricSettings)}


METRICS = {"posh": "posh_reward.metrics.posh.posh:PoSh"}  # name -> module:class


def load_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """Make a metric from settings and from flags, which take precedence.

    Args:
        settings: arguments of ``PoSh`` as a YAML or JSON file or a mapping; or the name of a
            shipped file, such as "published" for ``configs/metric/published.yaml``.
        **flags: arguments of ``PoSh``; None leaves one to the settings.

    Raises:
        ConfigError: the file is unreadable, or a setting is invalid.
        InputError: a name is unknown.
    """
    metric: PoSh = make(METRICS, {**read_metric(settings, **flags), "name": "posh"}, "metric")
    return metric


def read_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> dict[str, Any]:
    """Merge settings and flags into arguments of ``PoSh``, as ``load_metric`` does."""
    return _options(settings) | {k: v for k, v in flags.items() if v is not None}


def _options(settings: str | PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    if settings is None or isinstance(settings, Mapping):
        return dict(settings or {})
    path = Path(settings)
    if path.is_dir() and path.suffix.lower() not in ENDINGS:
        run = read_run(path)
        if run is None or run.metric is None:
            raise InputError(
                f"{str(path)!r} has no {RUN_FILE} that names a metric: name the folder of a run of "
                "dapo_posh.py, or the metric's settings"
            )
        refuse_harm(run.metric, str(path / RUN_FILE))
        if run.unchecked:
            logger.warning("%s %s", path, UNCHECKED)
        return dict(run.metric)
    if path.suffix.lower() in ENDINGS:
        return read_settings(path, "the metric's settings")
    names = settings_names("configs/metric")
    if path.name != str(settings) or path.name not in names:
        raise InputError(
            f"unknown settings {str(settings)!r}: use a .yaml or .json file, or one of "
            f"{', '.join(names)}"
        )
    return read_settings(shipped(f"configs/metric/{path.name}.yaml"))


RECORDS = {
    "posh": "posh_reward.types:Scores",
    "harmonic": "posh_reward.metrics.harmonic_eval:HarmonicScores",
    "rubric": "posh_reward.metrics.rubric_judge:RubricScores",
    "prove": "posh_reward.metrics.prove.prove:ProveScores",
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
