"""HTML pages of a training run: marked completions every few steps, and a summary at the end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import install
from posh_reward.study.pages.element_marks import PairCard, page
from posh_reward.study.pages.thumbnails import as_jpeg
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.training.dapo.trainer import DapoTrainer

logger = logging.getLogger(__name__)

IMAGES = 4  # images on a page, each with its best and its worst completion
SIDE = 480  # pixels of an image's longer side
SAME = ("prompt", "reference")  # columns that are equal for all completions of an image

Row = Mapping[str, Any]


class CompletionPages:
    """Write pages of a trainer's completions; a failure to write is only a warning."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder = folder
        self.every = every
        self._next = 0
        self._last: tuple[int, Sequence[Row], Sequence[Scores]] | None = None

    def note(self, step: int, rows: Sequence[Row], scores: Sequence[Scores]) -> None:
        """Write a page every ``every`` steps; for ``DapoTrainer.on_scored``."""
        if not self.every:
            return
        self._last = step, rows, scores
        if step >= self._next:
            self._next = step + self.every
            title = f"Completions after {step} steps"
            self._write(f"step-{step:06d}.html", page(items(rows, scores), title, in_pairs=True))

    def finish(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Write ``run.html``: figures over all steps, and the last completions."""
        if self._last is None:
            return
        step, rows, scores = self._last
        # One batch may serve several steps.
        steps = max((int(row["step"]) for row in history if "step" in row), default=step + 1)
        title = f"The run of {steps} steps; completions of the last batch, after {step} steps"
        figure = _plot(history)
        caption = "Reward, precision and recall over the steps, and figures to watch"
        text = page(items(rows, scores), title, in_pairs=True, figure=figure, figure_text=caption)
        self._write("run.html", text)

    def _write(self, name: str, text: str) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            logger.warning("%s was not written: %s", self.folder / name, error)


def show_completions(trainer: DapoTrainer, every: int) -> CompletionPages:
    """Let a trainer's first rank write pages into its output folder."""
    own = every if trainer.accelerator.is_main_process else 0
    pages = CompletionPages(Path(trainer.args.output_dir) / "pages", own)
    trainer.on_scored = pages.note
    return pages


def items(rows: Sequence[Row], scores: Sequence[Scores]) -> list[PairCard]:
    """Return the best and the worst completion of each of the first few images.

    ``rows`` have an image's completions next to each other.
    """
    groups: list[tuple[Row, list[Scores]]] = []
    for row, score in zip(rows, scores, strict=True):
        if not groups or any(groups[-1][0].get(key) != row.get(key) for key in SAME):
            groups.append((row, []))
        groups[-1][1].append(score)
    cards = []
    for number, (row, group) in enumerate(groups[:IMAGES], start=1):
        image = _image(row)
        ranked = sorted(group, key=lambda score: -1.0 if score.f1 is None else score.f1)
        for name, score in (("best", ranked[-1]), ("worst", ranked[0])):
            title = f"Image {number}, {name} of {len(group)}"
            cards.append(PairCard(title, score, image, str(score.reference)))
    return cards


def _image(row: Row) -> bytes | None:
    image = row.get("image")
    if image is None:
        return None
    try:
        return as_jpeg(image, SIDE)
    except Exception:  # a page's image is not worth stopping the run
        logger.warning("an image cannot be shown", exc_info=True)
        return None


def _plot(history: Sequence[Mapping[str, Any]]) -> bytes | None:
    from posh_reward.study.pages.model_plots import run_plot

    try:
        return run_plot(history)
    except ImportError:
        logger.warning("figures of the run need Matplotlib: %s", install("study"))
        return None
