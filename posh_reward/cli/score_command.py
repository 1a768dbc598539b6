"""``posh-reward score`` and ``posh-reward explain``: POSH over a table, and over one pair."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, options
from posh_reward.errors import InputError
from posh_reward.settings import UNCHECKED_VARIABLE

if TYPE_CHECKING:
    from posh_reward.posh.posh import PoSh
    from posh_reward.tables.engine import Metric


SCORE_HELP = f"""\
Score each generation of a table against its reference. OUT gets one row per pair, with id, both
texts, precision, recall, f1 and more (docs/cli.md). A pair that cannot be scored has the reason in
its column failure. A killed run resumes with the same command.

{options.SCORES_MEANING}"""
EXPLAIN_HELP = f"""\
Score one pair and show it in the terminal. A text can come from a file (@caption.txt) or from
standard input (@-); write @@ to begin a text with an at sign.

{options.SCORES_MEANING}"""


def add_score(command: argparse.ArgumentParser) -> None:
    options.describe_command(
        command, SCORE_HELP, "score runs/pairs.csv -o runs/scores.jsonl --elements"
    )
    add = command.add_argument
    options.add_files(command)
    add("--elements", action="store_true", help="also write each graded element and its spans")
    reading = options.add_columns(command, "generation", "reference")
    options.add_reference_file(reading)
    reading("--clean", action="store_true", help="read both texts as rewards do, without thoughts "
            "and markup")  # fmt: skip
    options.add_dataset(reading)
    options.add_metric(command, witness=True)
    add = options.add_running(command, "pairs", None)
    options.add_json(add)
    add("--unchecked", action="store_true", help="score with a judge that fails its first check "
        "(docs/cli.md), too")  # fmt: skip
    command.set_defaults(command=score_pairs)


def add_explain(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, EXPLAIN_HELP, "explain 'A red dog.' 'A brown dog sleeps.'")
    add = command.add_argument
    add("generation", metavar="GENERATION", help="the text to score")
    add("reference", metavar="REFERENCE", help="the text that says what is true")
    add("--image", metavar="FILE", help="the image, for a witness")
    add("--limit", type=options.positive, default=10, help="most elements to list, worst first")
    add("--color", metavar="WHEN", choices=("auto", "always", "never"), default="auto", help="auto "
        "(on a terminal, unless NO_COLOR is set), always or never (default: auto)")  # fmt: skip
    options.add_json(add)
    options.add_metric(command, witness=True)
    command.set_defaults(command=explain_pair)


def score_pairs(flags: argparse.Namespace) -> int:
    _check_outputs(flags)
    if flags.unchecked:
        os.environ[UNCHECKED_VARIABLE] = "1"  # also for a served model's own check
    texts = {"generation": flags.generation, "reference": flags.reference}
    settings = options.build_table_settings(flags, texts)
    if flags.clean:
        from posh_reward.reward.texts import clean_reference

        settings = replace(settings, clean=clean_reference)
    posh = options.load_posh(flags)
    metric = _attach_dataset(flags, posh)
    if flags.batch is None and not posh.asks_models:
        settings = replace(settings, batch=options.BATCH_ROWS * posh.processes)
    from posh_reward.posh.check import check_judge
    from posh_reward.tables.engine import CLEANED_SUFFIX, score_table

    check = None
    if (posh.asks_models or posh.reads_sentences) and not flags.unchecked:
        check = partial(check_judge, posh)
    tally = score_table(
        metric, flags.input, flags.output, settings, elements=flags.elements, check=check
    )
    origins = tally.origins
    warnings = [*origins.trained_otherwise(posh.signature), *origins.unchecked(), *origins.gaps()]
    options.print_warnings(warnings, settings.references)
    cleaned = CLEANED_SUFFIX if flags.clean else ""
    if not flags.quiet:
        print(f"{tally}\n{posh.signature}{cleaned}", file=sys.stderr)
        if posh.store is not None:
            print(posh.store, file=sys.stderr)
    options.write_figures(flags, {"signature": posh.signature + cleaned, **tally.figures()})
    return EXIT_INCOMPLETE if tally.failures else EXIT_OK


def _check_outputs(flags: argparse.Namespace) -> None:
    """Refuse figures in place of another file, or amid the rows on standard output."""
    from posh_reward.tables.tables import STANDARD_STREAM

    options.check_replaceable(flags.json, options.FIGURES_START)
    if flags.json == flags.output == STANDARD_STREAM:
        raise InputError("rows and figures would both be printed: name a file with -o or --json")


def _attach_dataset(flags: argparse.Namespace, posh: PoSh) -> Metric:
    """Return the metric itself, or with a dataset's images."""
    dataset = options.load_dataset_images(flags)
    if dataset is None:
        return posh
    if not posh.wants_images:
        raise InputError("only a witness looks at --dataset: add --witness, or leave it out")
    from posh_reward.tables.dataset_images import MetricWithDataset

    return MetricWithDataset(posh, dataset)


def explain_pair(flags: argparse.Namespace) -> int:
    from posh_reward.metrics.records import write_row
    from posh_reward.pages import element_marks
    from posh_reward.tables.standings import POSH_COLUMNS

    texts = [flags.generation, flags.reference]
    if texts == ["@-", "@-"]:
        raise InputError("only one of the two texts can come from standard input")
    options.check_replaceable(flags.json, options.FIGURES_START)
    posh = options.load_posh(flags)
    if posh.wants_images and flags.image is None:
        raise InputError("the witness needs an image: name it with --image")
    images = [flags.image] if posh.wants_images else None
    generation, reference = map(options.read_text, texts)
    scores = posh.score([generation], [reference], images)[0]
    row = write_row("posh", scores)
    if scores.failure is None:
        for why in POSH_COLUMNS.doubts(row):
            print(f"do not rely on this score: {why}", file=sys.stderr)
    width = min(get_terminal_size().columns, 100)
    color = _wants_color(flags.color)
    text = element_marks.explain(scores, color=color, width=width, worst=flags.limit)
    options.show_figures(flags, row, text)
    return EXIT_OK if scores.failure is None else EXIT_INCOMPLETE


def _wants_color(choice: str) -> bool:
    """Return True to use colours; ``auto``: on a terminal that shows them (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(allowed and sys.stdout and sys.stdout.isatty())
