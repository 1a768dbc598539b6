"""``posh-reward score`` and ``posh-reward explain``: POSH over a table, and over one pair."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.flags import (
    MEANING,
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
from posh_reward.metrics.load_metric import metric_flags, read_metric

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.rows.scorers import Metric

SCORE = f"""\
Score each generation of a table against its reference. OUT gets one row per pair: id, model and
image (if INPUT has them), generation, reference, precision, recall, f1, failure (kind and detail),
unparsed, doubtful_share, generation_elements and reference_elements (how many were graded) and
signature. A pair with a missing cell or an empty reference has no score, and its row says why. The
precision of an empty generation is 1, with 0 generation_elements.

{MEANING}

A killed run resumes with the same command. Unless OUT is JSON lines, finished rows are kept in
OUT.journal.jsonl until OUT is complete. In CSV, text that a spreadsheet would run as a formula is
written with an apostrophe before it."""
EXPLAIN = f"""\
Score one pair and show it in the terminal. A text can come from a file (@caption.txt) or from
standard input (@-); write @@ to begin a text with an at sign.

{MEANING}"""


def add_score(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``score``."""
    describe(command, SCORE, "score runs/pairs.csv -o runs/scores.jsonl --elements")
    add = command.add_argument
    add_files(command)
    add_columns(command, "generation", "reference")
    add_dataset(command)
    add("--elements", action="store_true", help="also write each graded element and its spans")
    add("--unchecked", action="store_true", help="score with a judge that does not tell identical "
        "texts from unrelated ones, too")  # fmt: skip
    add_running(command, "pairs")
    add("--jobs", type=positive, default=1, help="processes for the embedded judge, such as one "
        "per core")  # fmt: skip
    add_metric(command, witness=True)
    command.set_defaults(command=score)


def add_explain(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``explain``."""
    describe(command, EXPLAIN, "explain 'A red dog.' 'A brown dog sleeps.'")
    add = command.add_argument
    add("texts", metavar="TEXT", nargs="*", help="the generation, then its reference")
    add("--generation", metavar="TEXT", help="the generation, instead of the first TEXT")
    add("--reference", metavar="TEXT", help="the reference, instead of the second TEXT")
    add("--image", metavar="FILE", help="the image, for a witness")
    add("--worst", type=positive, default=10, help="number of elements to list")
    add("--color", choices=("auto", "always", "never"), default="auto", help="when to use colors; "
        "auto: on a terminal, unless NO_COLOR is set")  # fmt: skip
    add_metric(command, witness=True)
    command.set_defaults(command=explain)


def score(flags: argparse.Namespace) -> int:
    """Score every pair of a table."""
    texts = {"generation": flags.generation, "reference": flags.reference}
    settings = table_settings(flags, texts)
    posh = metric_of(flags)
    with _metric_of_table(flags, posh) as metric:
        if flags.jobs > 1:  # --batch pairs for each process
            settings = replace(settings, batch=settings.batch * flags.jobs)
        from posh_reward.metrics.posh.fitness import check_judge
        from posh_reward.study.rows.scorers import score_table

        tally = score_table(
            metric, flags.input, flags.output, settings, elements=flags.elements,
            check=partial(check_judge, posh) if posh.asks_models and not flags.unchecked else None,
        )  # fmt: skip
    if not flags.quiet:
        print(f"{tally}\n{posh.signature}", file=sys.stderr)
        if posh.store is not None:
            print(posh.store, file=sys.stderr)
    return INCOMPLETE if tally.failures else OK


@contextmanager
def _metric_of_table(flags: argparse.Namespace, posh: PoSh) -> Iterator[Metric]:
    """Yield the metric itself, with a dataset's images, or in several processes."""
    dataset = dataset_of(flags)
    if dataset is not None and not posh.wants_images:
        raise InputError("only a witness looks at --dataset: add --witness, or leave it out")
    if flags.jobs > 1:
        from posh_reward.study.rows.engine import ScoringPool

        settings = read_metric(flags.config, **metric_flags(flags))
        with ScoringPool(posh, settings, flags.jobs) as pool:
            yield pool
    elif dataset is not None:
        from posh_reward.study.rows.dataset_images import MetricWithDataset

        yield MetricWithDataset(posh, dataset)
    else:
        yield posh


def explain(flags: argparse.Namespace) -> int:
    """Show one pair, with what was not found marked."""
    from posh_reward.lexicon.wordnet import is_english
    from posh_reward.study.pages import terminal
    from posh_reward.study.rows.standings import NOT_ENGLISH

    flagged = [text for text in (flags.generation, flags.reference) if text is not None]
    if len(flags.texts) + len(flagged) != 2 or len(flagged) == 1:
        raise InputError(
            "explain takes two texts: posh-reward explain 'the generation' 'the reference', or "
            "--generation and --reference"
        )
    texts = flagged or flags.texts
    if texts == ["@-", "@-"]:
        raise InputError("only one of the two texts can come from standard input")
    posh = metric_of(flags)
    if posh.wants_images and flags.image is None:
        raise InputError("the witness needs an image: name it with --image")
    images = [flags.image] if posh.wants_images else None
    generation, reference = map(read_text, texts)
    scores = posh.score([generation], [reference], images)[0]
    if not is_english(scores.reference):
        print(f"do not rely on this score: {NOT_ENGLISH}", file=sys.stderr)
    width = min(get_terminal_size().columns, 100)
    write_text(terminal.explain(scores, color=_color(flags.color), width=width, worst=flags.worst))
    return OK if scores.failure is None else INCOMPLETE


def _color(choice: str) -> bool:
    """Return True to use colours; ``auto``: on a terminal that shows them (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(allowed and sys.stdout and sys.stdout.isatty())
