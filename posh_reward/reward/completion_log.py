"""Columns that a trainer logs of each completion: its origin, and what was found in it.

TRL gathers these columns from all ranks (``log_extra``). With ``log_completions`` it writes them to
``OUTPUT_DIR/completions/*.parquet``, which ``posh-reward report OUTPUT_DIR`` reads, sends them to
trackers, and prints some.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError, cut_middle
from posh_reward.metrics.records import read_scores, write_row
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.reward.shaping import GuardedScores, is_lowered
from posh_reward.settings import shorten
from posh_reward.types import DIRECTIONS, KINDS, Direction, Element, Scores

COMPLETIONS_FOLDER = "completions"
TRAINING_ENDING = ".train.parquet"
"""Of a file of training completions for which an evaluation has another."""
MAX_PRINTED_CHARACTERS = 60
ID_COLUMNS = ("uuid", "id")
"""A dataset's columns that tell its rows apart; the first that is there is logged."""
ROW_COLUMNS = ("id", "step", "mode", "cut")
"""Columns of every metric: the row's id, the step that the completion is for, ``train`` or
``eval``, and whether it reached the maximum length; None where unknown."""
DETAIL_COLUMNS = ("reference", "mistakes", "missing", "contradicted", "lowered", "scores")
"""POSH's own: the reference, the details that it does not support and those that the text leaves
out, sentences that it contradicts, guards that lowered the reward, and all scores as JSON."""


class LongText(str):
    """A text of which a terminal prints the ends; files and trackers get all of it.

    TRL prints ``str()`` of each cell: one text's elements would fill a thousand lines.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return cut_middle(" ".join(self.split()), MAX_PRINTED_CHARACTERS)


def build_row_columns(columns: Mapping[str, Any], trainer: Any, count: int) -> dict[str, Any]:
    """Build ``ROW_COLUMNS`` of a call for ``count`` completions.

    Args:
        columns: as TRL passes them to a reward.
        trainer: TRL's, which knows of training or evaluation and of a text's end; or None.
        count: number of completions.
    """
    ids = next((columns[name] for name in ID_COLUMNS if name in columns), ())
    if len(ids) != count:  # a reward of the user's may be called with anything
        ids = [None] * count
    state = columns.get("trainer_state")
    model = getattr(trainer, "model", None)
    mode = None
    if model is not None:
        mode = "train" if model.training else "eval"
    return {
        "id": [make_storable(str(each)) if isinstance(each, str | int) else None for each in ids],
        "step": [getattr(state, "global_step", None)] * count,
        "mode": [mode] * count,
        "cut": list(_find_cut(columns.get("completion_ids") or [None] * count, trainer)),
    }


def _find_cut(ids: Sequence[Sequence[int] | None], trainer: Any) -> Iterator[bool | None]:
    """Tell which completions lack their end, as TRL does (trl 1.16.0, grpo_trainer.py:2301)."""
    ends = getattr(trainer, "eos_token_ids", None)
    for each in ids:
        if not each or not ends:
            yield None
        else:
            yield each[-1] not in (*ends, trainer._tokenizer.pad_token_id)


def keep_training_log(trainer: Any) -> None:
    """Rename the completions that a step has logged, before those of an evaluation replace them.

    TRL names both files by the step alone (trl 1.16.0, grpo_trainer.py:3350).
    """
    accelerator = getattr(trainer, "accelerator", None)
    if accelerator is None or not accelerator.is_main_process:
        return
    name = f"completions_{trainer.state.global_step:05d}"
    folder = Path(trainer.args.output_dir, COMPLETIONS_FOLDER)
    with suppress(OSError):  # there is none before the first step, or nothing is logged
        (folder / f"{name}.parquet").replace(folder / f"{name}{TRAINING_ENDING}")


def make_storable(text: str) -> str:
    """Replace half surrogate pairs, with which the log could not be written."""
    return text.encode("utf-8", "replace").decode("utf-8")


def wants_details(trainer: Any) -> bool:
    """Return False if a trainer is known to log no completions, so that details would be lost."""
    return bool(getattr(trainer, "log_completions", True))


def build_detail_columns(
    scores: Sequence[Scores],
    references: Sequence[object],
    guarded: Sequence[GuardedScores | None],
) -> dict[str, list[Any]]:
    """Build ``DETAIL_COLUMNS``; a score that failed may lack its reference."""
    texts = [each.reference or known for each, known in zip(scores, references, strict=True)]
    return {
        "reference": [_make_long(each if isinstance(each, str) else "") for each in texts],
        "mistakes": [_make_long(list_unsupported(each, "precision")) for each in scores],
        "missing": [_make_long(list_unsupported(each, "recall")) for each in scores],
        "contradicted": [_make_long(_join_contradicted(each)) for each in scores],
        "lowered": list(map(_describe_guards, scores, guarded)),
        "scores": [_make_long(pack_scores(each)) for each in scores],
    }


def _make_long(text: str) -> LongText:
    return LongText(make_storable(text))


ELEMENT_FIELDS = tuple(each.name for each in fields(Element))
GRADE = ELEMENT_FIELDS.index("grade")
DECIDED_BY = ELEMENT_FIELDS.index("decided_by")
GRADE_DIGITS = 4  # after the decimal point


def pack_scores(scores: Scores) -> str:
    """Pack scores as a row's JSON, with elements as lists of values, as short as can be.

    ``["precision", "entity", "hat", 1.2, [[2, 5]], "hat"]``: ``ELEMENT_FIELDS`` in order, up to the
    last one that does not have its default. A description of 250 words takes 15 kB, not 50.
    """
    row = write_row("posh", scores)
    row["elements"] = [list(_pack_element(each)) for each in row["elements"]]
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _pack_element(element: Mapping[str, Any]) -> Iterator[Any]:
    defaults = {each.name: each.default for each in fields(Element)}
    used = [place for place, name in enumerate(ELEMENT_FIELDS) if element[name] != defaults[name]]
    for place, name in enumerate(ELEMENT_FIELDS[: used[-1] + 1]):
        value = element[name]
        yield round(value, GRADE_DIGITS) if place == GRADE and value is not None else value


def read_packed_elements(packed: str) -> tuple[dict[str, Any], list[list[Any]]]:
    """Read packed scores as a row without elements, and the elements as lists of values.

    Raises:
        InputError: it is not what ``pack_scores`` writes.
    """
    try:
        row = json.loads(packed)
        elements = row.pop("elements")
        for direction, kind, text, grade, *_ in elements:
            known = direction in DIRECTIONS and kind in KINDS and isinstance(text, str)
            if not (known and (grade is None or isinstance(grade, int | float))):
                break
        else:
            return row, elements
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        pass
    raise InputError(f"{shorten(packed)} is no packed row of scores")


def unpack_scores(packed: str) -> Scores:
    """Unpack what ``pack_scores`` made, with grades to 4 digits.

    Raises:
        InputError: it is something else.
    """
    row, elements = read_packed_elements(packed)
    row["elements"] = [dict(zip(ELEMENT_FIELDS, each, strict=False)) for each in elements]
    scores: Scores = read_scores("posh", row)
    return scores


def list_unsupported(scores: Scores, direction: Direction) -> str:
    """List what one text does not support of the other: ``"hat; table: wooden; cup on table"``."""
    return "; ".join(
        describe_element(each)
        for each in scores.elements
        if each.direction == direction
        and each.grade is not None
        and each.grade < MIN_SUPPORTED_GRADE
    )


def describe_element(element: Element) -> str:
    """Describe an element: ``"hat"``, ``"table: wooden"`` or ``"cup on table"``."""
    if element.kind == "entity":
        return element.text
    if element.kind == "attribute":
        return f"{element.identifier}: {element.text}"
    return f"{element.identifier} {element.text} {element.other}"


def _join_contradicted(scores: Scores) -> str:
    return " ".join(scores.generation[slice(*each.span)] for each in scores.contradicted)


def _describe_guards(scores: Scores, guarded: GuardedScores | None) -> str:
    """Describe what the guards took of a reward that they lower: ``"list 0.31, coverage 0.05"``."""
    if guarded is None or not is_lowered(scores, guarded):
        return ""
    taken = {name: 1 - kept for name, kept in guarded.shares.items() if kept < 1}
    largest_first = sorted(taken.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.2f}" for name, share in largest_first)
