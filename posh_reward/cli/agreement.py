"""``posh-reward agreement``: how well metrics agree with people. One function for each command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from posh_reward.study.agreement.items import Measure
    from posh_reward.study.agreement.localise import Localiser
    from posh_reward.study.agreement.pairs import Compared
    from posh_reward.study.agreement.ratings import Rated
    from posh_reward.study.agreement.report import Report
    from posh_reward.study.agreement.run import Choices
    from posh_reward.study.rows.tables import Row

AXES = ("mistakes", "omissions", "overall")
IF_THERE = ("image", "uuid", "id")
"""Columns that a flag names by default, and that a table may lack."""


def with_scipy(run: Callable[[argparse.Namespace], int], flags: argparse.Namespace) -> int:
    """Runs a command, if what computes its figures is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "correlations need scipy: pip install 'posh-reward[study]'"
        ) from None
    return run(flags)


def docent(flags: argparse.Namespace) -> int:
    """DOCENT's coarse judgments."""
    from posh_reward.study.agreement.run import pairs_report

    return show(pairs_report(docent_judgments(flags), _choices(flags)), flags)


def docent_judgments(flags: argparse.Namespace) -> Compared:
    """The pairs that the flags name."""
    from posh_reward.study.agreement.pairs import PairColumns, compared

    return compared(_rows(flags), PairColumns(), flags.input)


def caparena(flags: argparse.Namespace) -> int:
    """CapArena's battles."""
    from posh_reward.study.agreement.caparena import arena
    from posh_reward.study.agreement.run import caparena_report

    return show(caparena_report(arena(_rows(flags), flags.input), _choices(flags)), flags)


def pairs(flags: argparse.Namespace) -> int:
    """Any pairs that people compared."""
    from posh_reward.study.agreement.run import pairs_report

    return show(pairs_report(pair_judgments(flags), _choices(flags)), flags)


def pair_judgments(flags: argparse.Namespace) -> Compared:
    """The pairs that the flags name."""
    from posh_reward.study.agreement.pairs import PairColumns, compared

    columns = PairColumns(
        flags.text1, flags.text2, flags.reference, flags.image, by_axis(flags.label, "--label")
    )
    return compared(_rows(flags), columns, flags.input)


def ratings(flags: argparse.Namespace) -> int:
    """Any texts that people rated."""
    from posh_reward.study.agreement.run import ratings_report

    return show(ratings_report(rating_judgments(flags), _choices(flags)), flags)


def rating_judgments(flags: argparse.Namespace) -> Rated:
    """The ratings that the flags name."""
    from posh_reward.study.agreement.ratings import RatingColumns, rated

    named = rating_columns(flags)
    columns = RatingColumns(flags.candidate, flags.references, flags.image, named, flags.raters)
    return rated(_rows(flags), columns, flags.input)


def rating_columns(flags: argparse.Namespace) -> dict[str, str]:
    """Axis -> column of its ratings; ``rating`` for all of them unless flags name others."""
    return by_axis(flags.rating or ["rating"], "--rating")


def mmhe(flags: argparse.Namespace) -> int:
    """HarmonicEval's judgments: four tasks, five criteria, the best of three."""
    from posh_reward.metrics.harmonic.asking import CRITERIA
    from posh_reward.study.agreement.mmhe import MmheColumns, judged
    from posh_reward.study.agreement.mmhe_report import mmhe_report

    named = {name: name for name in CRITERIA} | dict(flags.criterion)
    columns = MmheColumns(flags.task, flags.candidate, flags.references, flags.image,
                          flags.question, flags.best, named, flags.raters)  # fmt: skip
    found = judged(_rows(flags), columns, flags.input, flags.images)
    return show(mmhe_report(found, _choices(flags), flags.tables), flags)


def spans(flags: argparse.Namespace) -> int:
    """Texts with marked mistakes and omissions."""
    from posh_reward.study.agreement.marks import MarkColumns, marked
    from posh_reward.study.agreement.parts import spans_report

    columns = MarkColumns(
        flags.generation, flags.reference, flags.mistakes, flags.omissions, flags.image
    )
    judged = marked(_rows(flags), columns, flags.input)
    found, missing = _localisers(flags)
    report = spans_report(
        judged, found, missing, against=flags.against, resamples=flags.resamples, seed=flags.seed,
        quiet=flags.quiet,
    )  # fmt: skip
    return show(report, flags)


def _localisers(flags: argparse.Namespace) -> tuple[list[Localiser], list[tuple[str, str]]]:
    from posh_reward.cli.commands import metric_of
    from posh_reward.models.encoders import load_encoder
    from posh_reward.study.agreement.baselines.embedding import EmbeddingAlerts
    from posh_reward.study.agreement.baselines.random import Random
    from posh_reward.study.agreement.measures import PoshMeasure

    posh = metric_of(flags)
    found: list[Localiser] = [] if flags.no_posh else [PoshMeasure(posh, flags.threshold)]
    missing: list[tuple[str, str]] = []
    if flags.random:
        found.append(Random())
    if flags.encoder is not None:
        try:
            encoder = load_encoder(flags.encoder)
        except MissingDependencyError as error:
            missing += [(name, str(error)) for name in ("4GramEmbed", "SGEmbed")]
        else:
            readers = (None, posh.reader)
            found += [EmbeddingAlerts(encoder, flags.encoder, reader) for reader in readers]
    if not found:
        raise InputError("no metric to measure: leave out --no-posh, or add --random")
    return found, missing


def graphs(flags: argparse.Namespace) -> int:
    """Scene graphs that people drew."""
    from posh_reward.cli.commands import metric_of
    from posh_reward.study.agreement.parts import graphs_report

    reader = metric_of(flags).reader
    report = graphs_report(_rows(flags), reader, flags.input, resamples=flags.resamples,
                           seed=flags.seed)  # fmt: skip
    return show(report, flags)


def answers(flags: argparse.Namespace) -> int:
    """Questions that people answered."""
    from posh_reward.study.agreement.answers import answered
    from posh_reward.study.agreement.parts import answers_report

    given = answered(_rows(flags), flags.answer, flags.pair, flags.input)
    report = answers_report(given, flags.input, resamples=flags.resamples, seed=flags.seed)
    return show(report, flags)


def by_axis(given: list[str], flag: str) -> dict[str, str]:
    """``["P"]`` or ``["mistakes=P", ...]`` -> axis -> column; one column alone is for all axes.

    Raises:
        InputError: an axis is unknown or given twice.
    """
    found: dict[str, str] = {}
    for each in given:
        axis, equals, column = each.partition("=")
        axes = (axis,) if equals else AXES
        for one in axes:
            if one not in AXES or one in found:
                why = "is given twice" if one in found else "is unknown"
                raise InputError(f"{flag} {each!r}: the axis {one!r} {why}: use {', '.join(AXES)}")
            found[one] = column if equals else each
    return found


def _rows(flags: argparse.Namespace) -> list[Row]:
    from posh_reward.study.agreement.page import check_plot
    from posh_reward.study.agreement.sources import check_columns, read_rows

    if flags.plot is not None:
        check_plot(flags.plot)
    rows = read_rows(
        flags.input,
        split=getattr(flags, "split", "test"),
        format=flags.format,
        delimiter=flags.delimiter,
        unfold=getattr(flags, "unfold", None),
    )
    for flag in ("image", "pair"):
        column = getattr(flags, flag, None)
        if column not in (None, *IF_THERE):
            check_columns(rows, {f"--{flag}": column}, flags.input)
    return rows


def _choices(flags: argparse.Namespace) -> Choices:
    from posh_reward.study.agreement.run import Choices

    paper = getattr(flags, "paper", "none")
    measures, missing = _measures(flags)
    return Choices(
        measures=measures,
        columns=flags.column,
        missing=missing,
        combine=getattr(flags, "combine", "join"),
        against=flags.against,
        resamples=flags.resamples,
        seed=flags.seed,
        table=None if paper == "none" else int(paper),
        quiet=flags.quiet,
    )


def _measures(flags: argparse.Namespace) -> tuple[list[Measure], list[tuple[str, str]]]:
    from posh_reward.cli.commands import metric_of
    from posh_reward.study.agreement.baselines.llm import LlmScores
    from posh_reward.study.agreement.baselines.load import load_baselines
    from posh_reward.study.agreement.measures import PoshMeasure, ScoresFile
    from posh_reward.study.agreement.sources import read_rows

    posh = metric_of(flags)
    found: list[Measure] = [] if flags.no_posh else [PoshMeasure(posh)]
    for each in flags.scores:
        name, equals, file = each.partition("=")
        if not (name and equals and file):
            raise InputError(f"--scores {each!r}: write NAME=FILE")
        found.append(ScoresFile(name, read_rows(file), file))
    baselines, missing = load_baselines(flags.baseline, posh.reader)
    found += baselines
    if flags.llm is not None:
        from posh_reward.models.load_model import load_model

        found.append(LlmScores(load_model(flags.llm), flags.llm_sees, posh.store))
    if flags.harmonic is not None:
        from posh_reward.metrics.harmonic.metric import HarmonicEval
        from posh_reward.study.agreement.harmonic import HarmonicMeasure

        harmonic = HarmonicEval(flags.harmonic, flags.gamma, posh.store, criteria=flags.criteria)
        found.append(HarmonicMeasure(harmonic))
    if not found and not flags.column:
        raise InputError("no metric to measure: leave out --no-posh, or name --column, --scores, "
                         "--baseline, --llm or --harmonic")  # fmt: skip
    return found, missing


def show(report: Report, flags: argparse.Namespace) -> int:
    """Prints a report, and writes its page and its plot; returns an exit status."""
    from posh_reward.cli.texts import write_text
    from posh_reward.study.agreement.page import page_of, plot
    from posh_reward.study.agreement.report import as_json
    from posh_reward.study.agreement.table import text_of

    if flags.title:
        report = replace(report, title=flags.title)
    write_text(json.dumps(as_json(report), indent=2) if flags.json else text_of(report))
    for line in report.lines:
        if line.signature and not flags.quiet:
            print(f"{line.name}: {line.signature}", file=sys.stderr)
    if flags.html is not None:
        Path(flags.html).write_text(page_of(report), encoding="utf-8")
    if flags.plot is not None:
        plot(report, Path(flags.plot))
    return UNSCORED if any(line.failures for line in report.lines) else OK
