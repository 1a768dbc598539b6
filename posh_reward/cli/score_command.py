"""``posh-reward score`` and ``posh-reward explain``: POSH over a table, and over one pair."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.flags import (
    add_columns,
    add_dataset,
    add_files,
    add_metric,
    add_running,
    dataset_of,
    describe,
    metric_of,
    positive,
    read_text,
    table_settings,
    write_text,
)
from posh_reward.errors import InputError
from posh_reward.study.rows.score_axes import EXPLANATION

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.rows.scorers import Metric

MEANING = fill(EXPLANATION + ".", 100)
SCORE = f"""\
Scores each generation of a table against its reference. Writes one row for each pair: id, model and
image if there are such columns, generation, reference, mistakes, omissions and overall, the number
of elements on each side, failure_kind and failure, unparsed, signature. A pair with a missing cell
or an empty reference has no score, and its row says why. An empty generation is scored: it makes no
mistakes (1), with 0 generation_elements.

{MEANING}

Killed at any moment, the same command goes on where it was. Except for JSON lines, what is done is
kept in OUT.journal.jsonl until OUT is whole. A text that a spreadsheet would run as a formula is
written to CSV with an apostrophe before it."""
EXPLAIN = f"""\
Scores one pair and shows it in the terminal. A text may come from a file (@caption.txt) or from
standard input (@-); to begin a text with an at sign, write @@.

{MEANING}"""


def add_score(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``score``."""
    describe(command, SCORE)
    add = command.add_argument
    add_files(command)
    add_columns(command, "generation", "reference")
    add_dataset(command)
    add("--elements", action="store_true", help="add each element with its grade and its place")
    add_running(command, "pairs")
    add("--jobs", type=positive, default=1, metavar="N", help="processes that score, for the "
        "embedded judge: as many as there are cores; default: 1")  # fmt: skip
    add_metric(command, witness=True)
    command.set_defaults(command=score)


def add_explain(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``explain``."""
    describe(command, EXPLAIN)
    add = command.add_argument
    add("texts", metavar="TEXT", nargs="*", help="what was written and what it is compared with")
    add("--generation", metavar="TEXT", help="the first of the two")
    add("--reference", metavar="TEXT", help="the second")
    add("--image", metavar="FILE", help="the image, for a witness")
    add(
        "--worst",
        type=positive,
        default=10,
        metavar="N",
        help="elements to list; default: 10",
    )
    add("--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which "
        "respects NO_COLOR")  # fmt: skip
    add_metric(command, witness=True)
    command.set_defaults(command=explain)


def score(flags: argparse.Namespace) -> int:
    """Score every pair of a table."""
    texts = {"generation": flags.generation, "reference": flags.reference}
    settings = table_settings(flags, texts)
    posh = metric_of(flags)
    with _metric_of_table(flags, posh) as metric:
        if flags.jobs > 1:  # each process gets as many pairs as one alone would
            settings = replace(settings, batch=settings.batch * flags.jobs)
        from posh_reward.study.rows.scorers import score_table

        tally = score_table(metric, flags.input, flags.output, settings, elements=flags.elements)
    if not flags.quiet:
        print(f"{tally}\n{posh.signature}", file=sys.stderr)
        if posh.store is not None:
            print(posh.store, file=sys.stderr)
    return INCOMPLETE if tally.failures else OK


@contextmanager
def _metric_of_table(flags: argparse.Namespace, posh: PoSh) -> Iterator[Metric]:
    """The metric itself, or with the images of a dataset, or in several processes."""
    dataset = dataset_of(flags)
    if dataset is not None and not posh.wants_images:
        raise InputError("--dataset is for a witness to look at: add --witness, or leave it out")
    if flags.jobs > 1:
        from posh_reward.metrics.load_metric import metric_flags, read_metric
        from posh_reward.study.rows.scoring_pool import ScoringPool

        with ScoringPool(
            posh, read_metric(flags.config, **metric_flags(flags)), flags.jobs
        ) as pool:
            yield pool
    elif dataset is not None:
        from posh_reward.study.rows.dataset_images import MetricWithDataset

        yield MetricWithDataset(posh, dataset)
    else:
        yield posh


def explain(flags: argparse.Namespace) -> int:
    """Show one pair with its mistakes and omissions marked."""
    from posh_reward.lexicon.wordnet import is_english
    from posh_reward.study.pages import terminal
    from posh_reward.study.rows.standings import NOT_ENGLISH

    flagged = [text for text in (flags.generation, flags.reference) if text is not None]
    if len(flags.texts) + len(flagged) != 2 or len(flagged) == 1:
        raise InputError(
            "explain takes two texts: posh-reward explain 'what was written' 'what it is compared "
            "with', in this order, or --generation and --reference"
        )
    texts = flagged or flags.texts
    if texts == ["@-", "@-"]:
        raise InputError("only one of the two texts can come from standard input")
    posh = metric_of(flags)
    if posh.wants_images and flags.image is None:
        raise InputError("the witness has no image to look at: name it with --image")
    images = [flags.image] if posh.wants_images else None
    generation, reference = map(read_text, texts)
    scores = posh.score([generation], [reference], images)[0]
    if not is_english(scores.reference):
        print(f"do not rely on this: {NOT_ENGLISH}", file=sys.stderr)
    width = min(get_terminal_size().columns, 100)
    text = terminal.explain(scores, color=_color(flags.color), width=width, worst=flags.worst)
    write_text(text)
    return OK if scores.failure is None else INCOMPLETE


def _color(choice: str) -> bool:
    """Return True to write colours: ``auto`` does on a terminal that shows them (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(allowed and sys.stdout and sys.stdout.isatty())
