"""``posh-reward report``: a page about scores, or about what a run's policy learns to say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posh_reward.cli import EXIT_OK, options
from posh_reward.errors import InputError, PoshError, on_one_line

if TYPE_CHECKING:
    from posh_reward.pages.report_page import ReportContents
    from posh_reward.run_record import RunRecord
    from posh_reward.tables.dataset_images import DatasetImages
    from posh_reward.tables.standings import ScoreTotals
    from posh_reward.tables.tables import Row

MAX_SHOWN_COMPLETIONS = 400
MAX_DRAWN_ROWS = 20_000  # of the images that a run's record names
REPORT_HELP = f"""\
Write one HTML page that needs no network: distributions, the details that are invented and left out
most often, and each pair's texts with what was not found in the other marked by grade. Score with
--elements, or nothing is marked. Rows of several models are compared, also in the terminal. With
Pillow and an image column of paths (relative to here or to the folder of SCORES) or of row numbers
of --dataset, the page has the images; with Matplotlib, plots of the models.

For the folder of a training run with log_completions, also while it goes on, the page shows what
the policy learns to say; with --dataset, next to its images.

For output of `harmonic score`, `rubric score` and `prove score` it shows each score with its
reason.

{options.SCORES_MEANING}"""


def add_report(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, REPORT_HELP, "report runs/scores.jsonl -o runs/report.html")
    add = command.add_argument
    add("scores", metavar="SCORES", nargs="+", help="outputs of `posh-reward score --elements`; of "
        "several, rows without a model have the file's name; - for standard input; or the folder "
        "of a run")  # fmt: skip
    add("-o", "--output", metavar="HTML", default="-", help="page to write (default: standard "
        "output)")  # fmt: skip
    add("--title", help="heading of the page")
    add("--against", metavar="MODEL", help="model to compare the others with (default: the first "
        "one in SCORES)")  # fmt: skip
    add("--plots", metavar="DIR", help="also draw leaderboard, length and precision_recall as "
        ".png and .svg (needs Matplotlib)")  # fmt: skip
    options.add_json(add)
    add("--shown", type=options.positive, default=MAX_SHOWN_COMPLETIONS, help="of a run: "
        "completions to show with their marks")  # fmt: skip
    options.add_differences(add)
    options.add_dataset(add)
    add("--images", metavar="DIR", type=Path, help="folder that image paths are relative to, "
        "besides here and that of SCORES")  # fmt: skip
    options.add_reading(command)
    command.set_defaults(command=write_report)


def write_report(flags: argparse.Namespace) -> int:
    from posh_reward.pages.model_plots import require_matplotlib
    from posh_reward.tables.tables import STANDARD_STREAM, check_apart

    for name in flags.scores:
        check_apart(name, flags.output)
    options.check_replaceable(flags.output)
    options.check_replaceable(flags.json, options.FIGURES_START)
    if flags.output != STANDARD_STREAM and Path(flags.output).suffix not in (".html", ".htm"):
        raise InputError(f"{flags.output!r} is not the name of a page: let it end in .html")
    if flags.output == STANDARD_STREAM and flags.json != STANDARD_STREAM and stdout_is_terminal():
        raise InputError("a page is not for a terminal: name it, as in -o report.html")
    if flags.plots:
        require_matplotlib()
    read = _report_run if Path(flags.scores[0]).is_dir() else _report_scores
    _write_results(flags, read(flags))
    return EXIT_OK


def stdout_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


class Report(NamedTuple):
    """A page, its figures for ``--json``, and lines for the terminal."""

    page: str
    figures: dict[str, Any]  # empty without ``--json``
    lines: list[str]  # for the terminal, when all is written


def _write_results(flags: argparse.Namespace, report: Report) -> None:
    from posh_reward.tables.tables import STANDARD_STREAM, standard_output

    options.write_figures(flags, report.figures)
    if flags.output != STANDARD_STREAM:
        options.write_file(Path(flags.output), report.page.encode("utf-8"))
    elif flags.json != STANDARD_STREAM:
        standard_output().write(report.page.encode("utf-8"))
    for line in report.lines:
        print(line, file=sys.stderr)


def _report_run(flags: argparse.Namespace) -> Report:
    """Read the completions of a run."""
    from posh_reward.pages.html import Thumbnails
    from posh_reward.pages.run_page import describe_run, read_run, run_figures, run_page
    from posh_reward.process.progress import progress_bar
    from posh_reward.run_record import describe_progress
    from posh_reward.tables.completions import find_completions

    if len(flags.scores) > 1 or flags.plots or flags.against:
        raise InputError(
            f"{flags.scores[0]!r} is the folder of a run: name it alone, without --plots and "
            "--against, which compare models"
        )
    log = find_completions(Path(flags.scores[0]))
    record = _read_record(log.folder)
    dataset, why = _load_images_of_run(flags, record)
    images = Thumbnails(log.folder, dataset=dataset)
    steps = progress_bar("report", len(log.files), "step", iterable=log.read())
    contents = read_run(log, images, flags.shown, steps)
    about = log.folder.resolve().name
    if record is not None:
        about = f"{about}: {describe_progress(record, contents.steps[-1])}"
    lines = [describe_run(contents), *why]
    figures = run_figures(contents) if flags.json else {}
    return Report(run_page(contents, flags.title, about), figures, lines)


def _read_record(folder: Path) -> RunRecord | None:
    """Read a run's record; None if there is none, or it is damaged."""
    from posh_reward.run_record import read_run

    try:
        return read_run(folder)
    except PoshError:
        return None


def _load_images_of_run(
    flags: argparse.Namespace, record: RunRecord | None
) -> tuple[DatasetImages | None, list[str]]:
    """Load the images that a run was trained on, or say why there are none.

    A run may come from someone else: what its record names is loaded only if it is drawn.
    """
    from posh_reward.datasets.load_dataset import is_drawn, scene_options

    if flags.dataset:
        return options.load_dataset_images(flags), []
    data: Any = None if record is None else record.data
    if not isinstance(data, dict):
        data = {}
    name, split = data.get("name"), data.get("split")
    if not isinstance(name, str) or not isinstance(split, str):
        return None, ["without images: name the run's dataset, as in --dataset DATA --split train"]
    if not is_drawn(name) or scene_options(name).train > MAX_DRAWN_ROWS:
        flag = f"--dataset {on_one_line(name)} --split {on_one_line(split)}"
        return None, [f"without images: to show those that the run was trained on, add {flag}"]
    scenes = argparse.Namespace(dataset=name, split=split, dataset_reference="reference")
    try:
        return options.load_dataset_images(scenes), []
    except PoshError as error:
        return None, [f"without images: {error}"]


def _report_scores(flags: argparse.Namespace) -> Report:
    """Read rows of scores."""
    from posh_reward.metrics.records import read_metric_name
    from posh_reward.other_metrics.page import METRIC_PAGES, render_metric_page
    from posh_reward.pages.html import Thumbnails
    from posh_reward.pages.report_page import read_contents
    from posh_reward.provenance import Origins
    from posh_reward.tables.item_ids import ItemIds
    from posh_reward.tables.tables import STANDARD_STREAM

    folder = Path.cwd() if flags.scores[0] == STANDARD_STREAM else Path(flags.scores[0]).parent
    folders = [folder, *filter(None, [flags.images])]
    images = Thumbnails(*folders, dataset=options.load_dataset_images(flags))
    with _open_scored_rows(flags) as rows:
        first = list(islice(rows, 1))
        metric = read_metric_name(first[0]) if first else ""
        rows = chain(first, rows)
        if metric not in METRIC_PAGES:
            contents = read_contents(rows, images)
            options.check_alike(contents.score_totals.origins, allowed=flags.allow_differences)
            report = _report_posh(flags, contents)
        elif flags.plots or flags.against or flags.json:
            raise InputError(
                f"--plots, --against and --json work for scores of POSH only, not of {metric}"
            )
        else:
            origins = Origins()
            ids = ItemIds()
            page = render_metric_page(rows, metric, origins, ids, flags.title, images)
            report = Report(page, {}, [])
            options.check_alike(origins, allowed=flags.allow_differences)
            options.check_shared_ids(ids, ids.first_model, allowed=flags.allow_differences)
    if images.dataset and images.dataset.beyond:
        report.lines.append(f"without an image: {images.dataset.too_far}")
    if images.missing:
        report.lines.append(
            f"without an image: {len(images.missing):,} paths, such as {images.missing[0]!r}: "
            "name the folder that they are relative to with --images"
        )
    return report


@contextmanager
def _open_scored_rows(flags: argparse.Namespace) -> Iterator[Iterator[Row]]:
    from posh_reward.process.progress import progress_bar
    from posh_reward.tables.reading import open_tables

    with (
        open_tables(flags.scores, flags.format, flags.delimiter) as rows,
        progress_bar("report", None, "pair", iterable=rows) as bar,
    ):
        yield iter(bar)


def _report_posh(flags: argparse.Namespace, contents: ReportContents) -> Report:
    """Report POSH's scores, with a comparison of models; save their plots."""
    from posh_reward.pages.report_page import report_figures, report_page
    from posh_reward.tables.standings import (
        choose_baseline,
        format_gains,
        format_leaderboard,
        sort_best_first,
    )

    baseline = choose_baseline(contents.models, flags.against)
    options.check_shared_ids(contents.ids, baseline, allowed=flags.allow_differences)
    plots = _draw_plots(contents.score_totals, flags.plots)
    page = report_page(contents, flags.title, baseline, plots)
    lines = []
    if len(contents.models) > 1:
        ranked = sort_best_first(contents.score_totals.average_by_model())
        lines += [format_leaderboard(ranked), "", format_gains(contents.gains(baseline), baseline)]
    lines += [*contents.score_totals.partial_means(), *contents.score_totals.doubtful()]
    figures = report_figures(contents, baseline) if flags.json else {}
    return Report(page, figures, lines)


def _draw_plots(tally: ScoreTotals, folder: str | None) -> list[tuple[str, bytes]]:
    """Return (caption, SVG) of each plot if there are several models; save plots to ``folder``."""
    from posh_reward.pages.model_plots import model_plots, render_plot, save_plots

    shown = len(tally.models) > 1 and find_spec("matplotlib") is not None
    if not shown and not folder:
        return []
    plots = model_plots(tally)
    if folder:
        for path in save_plots(plots, Path(folder)):
            print(f"wrote {str(path)!r}", file=sys.stderr)
    if not shown:
        return []
    return [(plot.what, render_plot(plot, "svg")) for plot in plots]
