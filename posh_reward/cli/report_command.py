"""``posh-reward report``: turn scored rows into a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import OK
from posh_reward.cli.flags import (
    MEANING,
    add_dataset,
    add_format,
    check_replaceable,
    dataset_of,
    describe,
    write_file,
)
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.study.pages.report_page import ReportContents
    from posh_reward.study.rows.standings import Tally
    from posh_reward.study.rows.tables import Row

REPORT = f"""\
Write one HTML page that needs no network: distributions, a table to sort and search, and for each
pair both texts, with what was not found in the other marked by grade. Score with --elements, or
nothing is marked. Rows of several models are compared, also in the terminal:
means, and differences to a baseline, paired by id. If Pillow is installed and the image column
has paths (relative to here or to the folder of SCORES) or row numbers of --dataset, the page shows
the images. If Matplotlib is installed, the page has plots of the models.

For output of `harmonic score`, `rubric score` and `prove score` the page shows each score as a bar
with its reason, next to the image and the texts.

{MEANING}"""


def add_report(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``report``."""
    describe(command, REPORT, "report runs/scores.jsonl -o runs/report.html")
    add = command.add_argument
    add("scores", metavar="SCORES", help="output of `posh-reward score --elements`; - for standard "
        "input")  # fmt: skip
    add("-o", "--output", metavar="HTML", default="-", help="page to write (default: standard "
        "output)")  # fmt: skip
    add_format(command)
    add("--title", help="heading of the page")
    add("--baseline", metavar="MODEL", help="model to compare the others with (default: the first "
        "one in SCORES)")  # fmt: skip
    add("--plots", metavar="DIR", help="also draw leaderboard, length and precision_recall as "
        ".png and .svg (needs Matplotlib)")  # fmt: skip
    add_dataset(command)
    command.set_defaults(command=report)


def report(flags: argparse.Namespace) -> int:
    """Write a page about rows scored by any metric."""
    from posh_reward.metrics.records import metric_of
    from posh_reward.study.pages.model_plots import require_matplotlib
    from posh_reward.study.pages.report_page import contents_of
    from posh_reward.study.pages.sibling_page import SIBLINGS, sibling_page
    from posh_reward.study.pages.thumbnails import Thumbnails
    from posh_reward.study.rows.journal import check_apart
    from posh_reward.study.rows.tables import STANDARD, standard_output

    check_apart(flags.scores, flags.output)
    check_replaceable(flags.output)
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
            raise InputError(
                f"--plots and --baseline work for scores of POSH only, not of {metric}"
            )
        else:
            page = sibling_page(chain(first, rows), metric, flags.title, images)
    if images.dataset and images.dataset.beyond:
        print(f"without an image: {images.dataset.too_far}", file=sys.stderr)
    if flags.output == STANDARD:
        standard_output().write(page.encode("utf-8"))
    else:
        write_file(Path(flags.output), page.encode("utf-8"))
    return OK


@contextmanager
def _scored_rows(flags: argparse.Namespace) -> Iterator[Iterator[Row]]:
    from posh_reward.process.progress import progress_bar
    from posh_reward.study.rows.tables import format_of, open_table

    format = format_of(flags.scores, flags.format, flags.delimiter)
    with (
        open_table(flags.scores, format) as rows,
        progress_bar("report", None, "pair", iterable=rows) as bar,
    ):
        yield iter(bar)


def _posh_page(flags: argparse.Namespace, contents: ReportContents) -> str:
    """Return the page about POSH's scores; print a comparison of models and save their plots."""
    from posh_reward.study.pages.element_marks import TITLE
    from posh_reward.study.pages.report_page import report_page
    from posh_reward.study.rows.standings import baseline_of, best_first, gains_table, leaderboard

    baseline = baseline_of(contents.models, flags.baseline)
    plots = _plots(contents.tally, flags.plots)
    page = report_page(contents, flags.title or TITLE, baseline, plots)
    if len(contents.models) > 1:
        ranked = best_first(contents.tally.standings())
        comparison = gains_table(contents.gains(baseline), baseline)
        print(f"{leaderboard(ranked)}\n\n{comparison}", file=sys.stderr)
    return page


def _plots(tally: Tally, folder: str | None) -> list[tuple[str, bytes]]:
    """Return (caption, SVG) of each plot if there are several models; save plots to ``folder``."""
    from posh_reward.study.pages.model_plots import draw, model_plots, save_plots

    several = len(tally.models) > 1 and find_spec("matplotlib") is not None
    plots = model_plots(tally) if several or folder else []
    if folder:
        for path in save_plots(plots, Path(folder)):
            print(f"wrote {str(path)!r}", file=sys.stderr)
    return [(plot.what, draw(plot, "svg")) for plot in plots] if several else []
