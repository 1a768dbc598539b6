"""What each command does. Each takes the parsed flags and returns an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.pages.report_page import ReportContents
    from posh_reward.study.rows.dataset_images import DatasetImages
    from posh_reward.study.rows.standings import Tally
    from posh_reward.study.rows.tables import Row


def score(flags: argparse.Namespace) -> int:
    """Scores every pair of a table."""
    from posh_reward.cli.tables import how_of
    from posh_reward.study.rows.dataset_images import MetricWithDataset
    from posh_reward.study.rows.scorers import score_table

    texts = {"generation": flags.generation, "reference": flags.reference}
    how = how_of(flags, texts)
    posh = metric_of(flags)
    dataset = dataset_of(flags)
    if dataset is not None and not posh.wants_images:
        raise InputError("--dataset is for a witness to look at: add --witness, or leave it out")
    seeing = posh if dataset is None else MetricWithDataset(posh, dataset)
    tally = score_table(seeing, flags.input, flags.output, how, elements=flags.elements)
    if not flags.quiet:
        print(f"{tally}\n{posh.signature}", file=sys.stderr)
        if posh.store is not None:
            print(posh.store, file=sys.stderr)
    return UNSCORED if tally.failures else OK


def metric_of(flags: argparse.Namespace) -> PoSh:
    """The metric that the flags and their configuration file describe."""
    from posh_reward.metrics.load_metric import load_metric

    names = ("judge", "parser", "coref", "preset", "witness", "store")
    return load_metric(flags.config, **{name: getattr(flags, name, None) for name in names})


def explain(flags: argparse.Namespace) -> int:
    """Shows one pair with its mistakes and omissions marked."""
    from posh_reward.cli.texts import text, write_text
    from posh_reward.study.pages import terminal
    from posh_reward.study.rows.standings import NOT_ENGLISH, reads_like_english

    if flags.generation == flags.reference == "@-":
        raise InputError("only one of the two texts can come from standard input")
    posh = metric_of(flags)
    if posh.wants_images and flags.image is None:
        raise InputError("the witness has no image to look at: name it with --image")
    images = [flags.image] if posh.wants_images else None
    scores = posh.score([text(flags.generation)], [text(flags.reference)], images)[0]
    if not reads_like_english(scores.reference):
        print(f"do not rely on this: {NOT_ENGLISH}", file=sys.stderr)
    width = min(get_terminal_size().columns, 100)
    shown = terminal.explain(scores, color=_color(flags.color), width=width, worst=flags.worst)
    write_text(shown)
    return OK if scores.failure is None else UNSCORED


def _color(choice: str) -> bool:
    """Whether to write colours: ``auto`` does on a terminal that shows them (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(wanted and sys.stdout and sys.stdout.isatty())


def report(flags: argparse.Namespace) -> int:
    """Writes a page about scored rows, whichever metric scored them."""
    from posh_reward.study.pages.model_plots import require_matplotlib
    from posh_reward.study.pages.report_page import contents_of
    from posh_reward.study.pages.sibling_page import SIBLINGS, metric_of, sibling_page
    from posh_reward.study.pages.thumbnails import Thumbnails
    from posh_reward.study.rows.journal import check_apart
    from posh_reward.study.rows.tables import STANDARD

    check_apart(flags.scores, flags.output)
    if flags.plots:
        require_matplotlib()
    folder = Path.cwd() if flags.scores == STANDARD else Path(flags.scores).parent
    images = Thumbnails(folder, dataset=dataset_of(flags))
    with _scored_rows(flags) as rows:
        first = list(islice(rows, 1))
        metric = metric_of(first[0]) if first else ""
        if metric not in SIBLINGS:
            page = _posh_page(flags, contents_of(chain(first, rows), images))
        elif flags.plots or flags.baseline:
            raise InputError(f"--plots and --baseline are for scores of POSH, not of {metric}")
        else:
            page = sibling_page(chain(first, rows), metric, flags.title, images)
    if images.dataset and images.dataset.beyond:
        print(f"without an image: {images.dataset.too_far}", file=sys.stderr)
    _write_page(page.encode("utf-8"), flags.output)
    return OK


@contextmanager
def _scored_rows(flags: argparse.Namespace) -> Iterator[Iterator[Row]]:
    """The rows to report on, counted as they are read."""
    from tqdm import tqdm

    from posh_reward.study.rows.tables import format_of, open_table

    format = format_of(flags.scores, flags.format, flags.delimiter)
    with (
        open_table(flags.scores, format) as rows,
        tqdm(rows, desc="report", unit="pair") as counted,
    ):
        yield iter(counted)


def _posh_page(flags: argparse.Namespace, contents: ReportContents) -> str:
    """The page about POSH's scores, and plots of the models; prints a comparison of models."""
    from posh_reward.study.pages.report_page import TITLE, report_page
    from posh_reward.study.rows.standings import baseline_of, best_first, gains_table, leaderboard

    baseline = baseline_of(contents.models, flags.baseline)
    plots = _plots(contents.tally, flags.plots)
    page = report_page(contents, flags.title or TITLE, baseline, plots)
    if len(contents.models) > 1:
        ranked = best_first(contents.tally.standings())
        compared = gains_table(contents.gains(baseline), baseline)
        print(f"{leaderboard(ranked)}\n\n{compared}", file=sys.stderr)
    return page


def dataset_of(flags: argparse.Namespace) -> DatasetImages | None:
    """The dataset whose rows ``image`` numbers, if the flags name one.

    Raises:
        MissingDependencyError: ``datasets`` is not installed.
    """
    if not flags.dataset:
        return None
    if find_spec("datasets") is None:
        raise MissingDependencyError("--dataset needs datasets: pip install datasets pillow")
    from posh_reward.datasets.load_dataset import load_images
    from posh_reward.study.rows.dataset_images import DatasetImages

    return DatasetImages(load_images(flags.dataset, flags.split), flags.dataset)


def _plots(tally: Tally, folder: str | None) -> list[tuple[str, bytes]]:
    """Plots for a page about several models, if Matplotlib is there; and for a folder."""
    from posh_reward.study.pages.model_plots import drawn, model_plots, save_plots

    shown = len(tally.models) > 1 and find_spec("matplotlib") is not None
    plots = model_plots(tally) if shown or folder else []
    if folder:
        for path in save_plots(plots, Path(folder)):
            print(f"wrote {str(path)!r}", file=sys.stderr)
    return [(plot.what, drawn(plot, "svg")) for plot in plots] if shown else []


def _write_page(page: bytes, output: str) -> None:
    from posh_reward.study.rows.tables import STANDARD, standard_output

    if output == STANDARD:
        standard_output().write(page)
        return
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page)
    print(f"wrote {str(path)!r} ({len(page) / 1e6:.1f} MB)", file=sys.stderr)
