"""The completions that a training run has logged, step by step.

With ``log_completions``, TRL writes ``OUTPUT_DIR/completions/completions_STEP.parquet`` at each
log, with the last batch that was generated. So a batch that serves several steps is in several
files, and an evaluation's texts stand among those of the training, whose own file is then renamed
(``reward.completion_log.keep_training_log``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from posh_reward.errors import InputError
from posh_reward.reward.completion_log import COMPLETIONS_FOLDER, TRAINING_ENDING
from posh_reward.reward.texts import completion_text
from posh_reward.tables.reading import open_rows
from posh_reward.tables.tables import Row

FILE_NAME = re.compile(r"completions_(\d+)(\.train)?\.parquet")
PREFIX = "posh_"
"""Of the columns that ``reward.completion_log`` adds."""
REWARD_COLUMN = "posh"
SHARES = {"contradicted": "contradicted", "lowered": "lowered", "failed": "failure"}
"""Figures that are 1 where a column of texts is not empty: of which there is something to say."""
TRL_COLUMNS = ("step", "prompt", "completion", "advantage")


@dataclass(frozen=True, slots=True)
class Completion:
    """One logged completion."""

    step: int  # that it was generated for, from 1
    text: str  # as it was written
    figures: Mapping[str, float]
    """Rewards, scores, and 1 or 0 for what is or is not so of it; without those unknown."""
    id: str | None = None  # of the dataset's row
    reference: str = ""
    failure: str = ""
    packed: str | None = None
    """Its scores as ``reward.completion_log.pack_scores`` writes them; None in logs without."""


@dataclass(slots=True)
class CompletionLog:
    """The files of a run, and what was found when they were read."""

    folder: Path  # the run's
    files: Sequence[tuple[int, Path]]  # with the step at which they were written, in order
    unread: list[str] = field(default_factory=list)  # files with the reason
    evaluated: int = 0  # completions of evaluations, which are left out

    def read(self) -> Iterator[list[Completion]]:
        """Yield the completions of each file that no earlier one has; perhaps none.

        A file that cannot be read, such as one that is being written, is noted in ``unread``.
        """
        seen: set[int] = set()
        for step, path in self.files:
            found: list[Completion] = []
            try:
                with open_rows(str(path), "parquet") as rows:
                    found = list(self._read_rows(rows, step))
            except InputError as error:
                self.unread.append(str(error))
            new = [each for each in found if each.step not in seen]
            seen.update(each.step for each in new)
            yield new

    def _read_rows(self, rows: Iterator[Row], step: int) -> Iterator[Completion]:
        for row in rows:
            if row.get(f"{PREFIX}mode") == "eval":
                self.evaluated += 1
            else:
                yield _read_completion(row, step)


def find_completions(folder: Path) -> CompletionLog:
    """Find the logged completions of a run, in its output folder or the one within.

    Raises:
        InputError: there are none.
    """
    inner = folder if folder.name == COMPLETIONS_FOLDER else folder / COMPLETIONS_FOLDER
    files: list[tuple[int, Path]] = []
    if inner.is_dir():
        for path in sorted(inner.iterdir()):
            if (name := FILE_NAME.fullmatch(path.name)) and path.is_file():
                files.append((int(name[1]), path))
    if not files:
        raise InputError(
            f"{str(folder)!r} has no {COMPLETIONS_FOLDER}/completions_*.parquet, as the folder of "
            "a run with log_completions has: name one, or a file of scores"
        )
    # Of one step, the renamed file comes first: the other repeats some of it.
    files.sort(key=lambda each: (each[0], not each[1].name.endswith(TRAINING_ENDING)))
    return CompletionLog(inner.parent, files)


def _read_completion(row: Row, step: int) -> Completion:
    own = {name.removeprefix(PREFIX): row[name] for name in row if name.startswith(PREFIX)}
    finished = own.pop("step", None)  # steps before it was generated
    if is_figure(finished):
        step = int(finished) + 1
    text = completion_text(row.get("completion"))
    text = text if isinstance(text, str) else ""
    return Completion(
        step=step,
        text=text.strip(),
        figures=dict(_read_figures(row, own, text)),
        id=_read_text(own.get("id")) or None,
        reference=_read_text(own.get("reference")),
        failure=_read_text(own.get("failure")),
        packed=_read_text(own.get("scores")) or None,
    )


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


MAX_FIGURE = 1e12  # a damaged log may have more, whose mean would overflow


def is_figure(value: object) -> TypeGuard[float]:
    """Return True for a number of which means can be taken."""
    return isinstance(value, int | float) and -MAX_FIGURE < value < MAX_FIGURE


def _read_figures(row: Row, own: Mapping[str, Any], text: str) -> Iterator[tuple[str, float]]:
    """Yield the figures of a row: rewards by their functions' names, scores, and shares."""
    others = {
        name: value
        for name, value in row.items()
        if name not in TRL_COLUMNS and not name.startswith(PREFIX)
    }
    for name, value in {**others, **own}.items():
        if is_figure(value):
            yield name, float(value)
    for name, column in SHARES.items():
        if column in own:
            yield name, float(bool(own[column]))
    yield "words", float(len(text.split()))


def spread_evenly(items: Sequence[Any], most: int) -> list[Any]:
    """Choose at most ``most`` items at even distances, with the first and the last."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]
