"""``posh-reward agreement``: one function for each command."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.flags import check_replaceable, metric_of, write_file, write_text
from posh_reward.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from posh_reward.study.agreement.agreement_report import AgreementReport, AgreementSettings
    from posh_reward.study.agreement.localisation import Localiser
    from posh_reward.study.agreement.metric_scores import Measure
    from posh_reward.study.agreement.preferences import Preferences
    from posh_reward.study.agreement.ratings import TextRatings
    from posh_reward.study.rows.tables import Row

AXES = ("mistakes", "omissions", "overall")
OPTIONAL = ("image", "uuid", "id")
"""Default names of columns that a table may lack."""


def pairs(flags: argparse.Namespace) -> int:
    """Pairs that people compared, such as DOCENT's."""
    from posh_reward.study.agreement.preferences import preferences_report

    return show(preferences_report(preferences(flags), _settings(flags)), flags)


def preferences(flags: argparse.Namespace) -> Preferences:
    """Read the pairs that the flags name, by DOCENT's columns if the flags name none."""
    from posh_reward.study.agreement.preferences import PairColumns, read_preferences

    columns = PairColumns()
    if flags.label is not None:
        labels = by_axis(flags.label, "--label")
        columns = PairColumns(flags.text1, flags.text2, flags.reference, flags.image, labels)
    return read_preferences(
        _rows(flags), columns, flags.input, images=flags.images, procedure=flags.procedure
    )


def caparena(flags: argparse.Namespace) -> int:
    """CapArena's battles."""
    from posh_reward.study.agreement.caparena import caparena_report, read_arena

    arena = read_arena(_rows(flags), flags.input, images=flags.images, procedure=flags.procedure)
    return show(caparena_report(arena, _settings(flags)), flags)


def ratings(flags: argparse.Namespace) -> int:
    """Texts that people rated."""
    from posh_reward.study.agreement.ratings import ratings_report

    return show(ratings_report(text_ratings(flags), _settings(flags)), flags)


def text_ratings(flags: argparse.Namespace) -> TextRatings:
    """Read the ratings that the flags name."""
    from posh_reward.study.agreement.ratings import RatingColumns, read_ratings

    columns = RatingColumns(
        flags.candidate,
        flags.reference,
        flags.image,
        rating_columns(flags),
        flags.raters,
        flags.group,
    )
    return read_ratings(_rows(flags), columns, flags.input, flags.images)


def rating_columns(flags: argparse.Namespace) -> dict[str, str]:
    """Map each axis to its column of ratings, by default ``rating``."""
    from posh_reward.study.agreement.author_layouts import AXIS_RATINGS

    if not flags.rating and flags.layout in AXIS_RATINGS:
        return {axis: axis for axis in AXES}
    return by_axis(flags.rating or ["rating"], "--rating")


def spans(flags: argparse.Namespace) -> int:
    """Texts with marked mistakes and omissions."""
    from posh_reward.study.agreement.localisation import SpanColumns, read_marks, spans_report

    columns = SpanColumns(
        flags.generation, flags.reference, flags.mistakes, flags.omissions, flags.image
    )
    marks = read_marks(_rows(flags), columns, flags.input)
    localisers, missing = _localisers(flags)
    settings = replace(_resampling(flags), missing=missing, against=flags.against)
    return show(spans_report(marks, localisers, settings), flags)


def _localisers(flags: argparse.Namespace) -> tuple[list[Localiser], list[tuple[str, str]]]:
    """List metrics that locate errors, and (name, remedy) of those that cannot work here."""
    from posh_reward.models.encoders import load_encoder
    from posh_reward.study.agreement.baselines.catalogue import Random
    from posh_reward.study.agreement.baselines.embedding_alerts import EmbeddingAlerts
    from posh_reward.study.agreement.measures import PoshMeasure

    posh = metric_of(flags)
    localisers: list[Localiser] = [] if flags.no_posh else [PoshMeasure(posh, flags.threshold)]
    missing: list[tuple[str, str]] = []
    if flags.random:
        localisers.append(Random())
    if flags.encoder is not None:
        try:
            encoder = load_encoder(flags.encoder)
        except MissingDependencyError as error:
            missing += [(name, str(error)) for name in ("4GramEmbed", "SGEmbed")]
        else:
            readers = (None, posh.reader)
            localisers += [EmbeddingAlerts(encoder, flags.encoder, reader) for reader in readers]
    if not localisers:
        raise InputError("no metric to measure: leave out --no-posh, or add --random")
    return localisers, missing


def by_axis(columns: list[str], flag: str) -> dict[str, str]:
    """Map axes to columns, from ``["mistakes=P", ...]`` or from ``["P"]`` for all axes.

    Raises:
        InputError: an axis is unknown or named twice.
    """
    column_of: dict[str, str] = {}
    for each in columns:
        axis, equals, column = each.partition("=")
        for one in (axis,) if equals else AXES:
            if one not in AXES or one in column_of:
                why = "is named twice" if one in column_of else "is unknown"
                raise InputError(f"{flag} {each!r}: the axis {one!r} {why}: use {', '.join(AXES)}")
            column_of[one] = column if equals else each
    return column_of


def check_outputs(flags: argparse.Namespace) -> None:
    """Check the page and the plot, before anything is scored for them."""
    from posh_reward.study.agreement.agreement_page import check_plot

    check_replaceable(flags.html)
    if flags.plot is not None:
        check_plot(flags.plot)


def _rows(flags: argparse.Namespace) -> list[Row]:
    from posh_reward.study.agreement.author_layouts import LAYOUTS
    from posh_reward.study.agreement.judgment_files import check_columns, read_rows

    check_outputs(flags)
    if flags.layout is not None:
        return LAYOUTS[flags.layout](Path(flags.input), flags.reference_file)
    rows = read_rows(
        flags.input, split=flags.split, format=flags.format, delimiter=flags.delimiter,
        unfold=flags.unfold, images=flags.harmonic is not None or flags.llm_sees != "reference",
    )  # fmt: skip
    if flags.image not in (None, *OPTIONAL):
        check_columns(rows, {"--image": flags.image}, flags.input)
    return rows


def _resampling(flags: argparse.Namespace) -> AgreementSettings:
    from posh_reward.study.agreement.agreement_report import AgreementSettings

    return AgreementSettings(resamples=flags.resamples, seed=flags.seed, quiet=flags.quiet)


def _settings(flags: argparse.Namespace) -> AgreementSettings:
    measures, missing = _measures(flags)
    return replace(
        _resampling(flags), measures=measures, columns=flags.column, missing=missing,
        combine=flags.combine, against=flags.against,
        table=None if flags.paper == "none" else int(flags.paper),
    )  # fmt: skip


def _measures(flags: argparse.Namespace) -> tuple[list[Measure], list[tuple[str, str]]]:
    """List metrics that score texts, and (name, remedy) of those that cannot work here."""
    from posh_reward.study.agreement.baselines.catalogue import load_baselines
    from posh_reward.study.agreement.judgment_files import read_rows
    from posh_reward.study.agreement.measures import PoshMeasure, ScoresFile

    posh = metric_of(flags)
    measures: list[Measure] = [] if flags.no_posh else [PoshMeasure(posh)]
    for each in flags.scores:
        name, equals, file = each.partition("=")
        if not (name and equals and file):
            raise InputError(f"--scores {each!r}: write NAME=FILE")
        measures.append(ScoresFile(name, read_rows(file), file))
    baselines, missing = load_baselines(flags.baseline)
    measures += baselines
    if flags.llm is not None:
        from posh_reward.models.model import load_model
        from posh_reward.study.agreement.baselines.llm_scores import LlmScores

        measures.append(LlmScores(load_model(flags.llm), flags.llm_sees, posh.store))
    if flags.harmonic is not None:
        from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval
        from posh_reward.study.agreement.measures import HarmonicMeasure

        harmonic = HarmonicEval(flags.harmonic, flags.gamma, posh.store, criteria=flags.criteria)
        measures.append(HarmonicMeasure(harmonic))
    if not measures and not flags.column:
        raise InputError(
            "no metric to measure: leave out --no-posh, or add --column, --scores, --baseline, "
            "--llm or --harmonic"
        )
    return measures, missing


def show(report: AgreementReport, flags: argparse.Namespace) -> int:
    """Print a report, write its page and its plot; return an exit status."""
    from posh_reward.study.agreement.agreement_page import draw_plot, html_page, terminal_text
    from posh_reward.study.agreement.agreement_report import as_json

    if flags.title:
        report = replace(report, title=flags.title)
    write_text(json.dumps(as_json(report), indent=2) if flags.json else terminal_text(report))
    for line in report.lines:
        if line.signature and not flags.quiet:
            print(f"{line.name}: {line.signature}", file=sys.stderr)
    if flags.html is not None:
        write_file(Path(flags.html), html_page(report).encode("utf-8"))
    if flags.plot is not None:
        draw_plot(report, Path(flags.plot))
    return INCOMPLETE if any(line.failures for line in report.lines) else OK
