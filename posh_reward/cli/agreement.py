"""``posh-reward agreement``: flags, and one function for each command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, options
from posh_reward.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from posh_reward.pages.html import LocalImages
    from posh_reward.study.agreement.agreement_report import AgreementReport, AgreementSettings
    from posh_reward.study.agreement.judged_items import JudgedSet
    from posh_reward.study.agreement.localisation import Localiser, SpanAnnotations
    from posh_reward.study.agreement.metric_scores import Measure, TextPair
    from posh_reward.study.agreement.preferences import Preferences
    from posh_reward.study.agreement.ratings import TextRatings
    from posh_reward.tables.tables import Row
    from posh_reward.types import Scores


AGREEMENT_HELP = """\
Measure how well metrics agree with people's judgments, by the paper's procedures, and print the
paper's figures below ours. POSH scores the texts now, by the flags of `metric`; other metrics come
from columns of the judgments, from files of scores, or from --baseline. Every metric is compared
with the first, by intervals and tests from a paired bootstrap over images. Higher is better
everywhere. With --reader, POSH contradicted, minus the share of contradicted sentences, is one
more metric, for mistakes. With --store an interrupted run resumes."""
DOCENT_HELP = """\
Read coarse judgments in DOCENT's form (paper, A.3.2): two texts, a reference, and on each axis one
of 1_much_better, 1_slightly_better, equal, 2_slightly_better, 2_much_better. INPUT is a dataset on
the hub, its local copy, or a file with the same columns."""
CAPARENA_HELP = """\
Read CapArena's caparena_annots_eval.json, or a file with the same columns: img, ref, source1,
source2, caption1, caption2, winner, cluster. Pairs with a human's text are left out; winner skip,
bad and equal are ties. Texts are compared by their overall score."""
PAIRS_HELP = """\
Read any table of two texts and a reference, such as `posh-reward packets read --pairs` writes. A
label is one of DOCENT's, or a number from 2 (the first text is much better) to -2. Without --label
the columns mistakes, omissions and overall are the labels; if there is none of them, the first text
is the better one in every row."""
RATINGS_HELP = """\
Read any table of texts that people rated one by one: generation, references (a text or a list of
texts) and rating (a number, or a list with one per rater)."""
SPANS_HELP = """\
Read texts in which people marked mistakes (in the generation) and omissions (in the reference) as
spans [start, end), and report macro F1 over marked and unmarked tokens (paper, Table 2). INPUT is a
dataset on the hub, its local copy, or a file. Baselines with spans: random; 4GramEmbed and SGEmbed
with --encoder."""
CRITERIA = ("correctness", "completeness", "clarity", "fluency", "conciseness")
"""As in ``other_metrics.harmonic_eval``, which the help does not load."""
DEFAULTS_ELSEWHERE = {
    "harmonic_judge": None, "image": None, "label": None, "layout": None, "llm_sees": "reference",
    "page": None, "paper": "none", "reference_file": None, "split": "test",
}  # fmt: skip
"""Values of flags that only some commands have, for those that lack them."""


def add_agreement(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, AGREEMENT_HELP)
    for name, line, about, example, run, *adders in (
        ("docent", "DOCENT's coarse judgments", DOCENT_HELP, "--store runs/answers.sqlite",
         report_pairs, _add_docent, _add_text_measures),
        ("caparena", "CapArena's battles", CAPARENA_HELP,
         "caparena_annots_eval.json --images images",
         report_caparena, _add_caparena, _add_text_measures),
        ("pairs", "pairs that people compared", PAIRS_HELP, "pairs.csv --page pairs.html",
         report_pairs, _add_pairs, _add_text_measures),
        ("ratings", "texts that people rated", RATINGS_HELP, "ratings.csv --baseline bleu",
         report_ratings, _add_ratings, _add_text_measures),
        ("spans", "texts with marked mistakes and omissions", SPANS_HELP, "marks.jsonl --random",
         report_spans, _add_spans),
    ):  # fmt: skip
        each = options.add_subcommand(commands, name, line, about, f"agreement {name} {example}")
        each.set_defaults(command=run, **DEFAULTS_ELSEWHERE)
        for add in adders:
            add(each)
        options.add_reports(each)
        options.add_metric(each)
        more = each.add_argument_group("intervals and output").add_argument
        more("--against", metavar="NAME", help="metric to compare the others with (default: the "
             "first)")  # fmt: skip
        more("--resamples", type=options.count, default=1000, help="resamples of images; 0 for no "
             "intervals")  # fmt: skip
        more("--seed", type=options.count, default=0, help="seed of the resamples")
        more("--title", default="", help="heading of the table")
        more("-q", "--quiet", action="store_true", help="print no progress bars")


def _add_docent(command: argparse.ArgumentParser) -> None:
    _add_input(command, default="amitha/docent-eval-coarse")
    add = options.add_reading(command)
    _add_split(add)
    _add_images(add)
    _add_paper(add)


def _add_caparena(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="caparena_annots_eval.json")
    add = options.add_reading(command)
    _add_images(add)
    _add_paper(add)


def _add_judgments(command: argparse.ArgumentParser, flag: str, use: str) -> None:
    command.add_argument(flag, metavar="[AXIS=]COLUMN", action="append", default=[],
                         help=f"column of {flag.strip('-')}s, for all axes or for mistakes, "
                         f"omissions or overall; {use}")  # fmt: skip


def _add_pairs(command: argparse.ArgumentParser) -> None:
    _add_input(command)
    _add_judgments(command, "--label", "repeatable")
    add = options.add_reading(command, "generation1", "generation2", "reference")
    _add_split(add)
    _add_image(add)
    _add_images(add)


def _add_ratings(command: argparse.ArgumentParser) -> None:
    _add_input(command)
    _add_judgments(command, "--rating", "repeatable (default: rating)")
    add = options.add_reading(command, "generation")
    add("--reference", metavar="COLUMN", default="references", help="reference column: a text or a "
        "list of texts")  # fmt: skip
    add("--average-raters", action="store_true", help="take the mean of a text's ratings, instead "
        "of each")  # fmt: skip
    add("--group", metavar="COLUMN", help="column such as task: print tau_b and accuracy for each "
        "of its values")  # fmt: skip
    add("--layout", choices=("flickr8k", "thumb"), help="read the authors' own files: CLIPScore's "
        "flickr8k.json, or mscoco_THumB-1.0.jsonl with --reference-file")  # fmt: skip
    add("--reference-file", metavar="FILE", type=Path, help="THumB's mscoco_references.jsonl")
    _add_split(add)
    _add_image(add)
    _add_images(add)


def _add_spans(command: argparse.ArgumentParser) -> None:
    _add_input(command, default="amitha/docent-eval-granular")
    add = command.add_argument
    add("--no-posh", action="store_true", help="do not score POSH")
    add("--random", action="store_true", help="also measure random scores")
    add("--encoder", metavar="NAME", help="also measure 4GramEmbed and SGEmbed with this encoder: "
        "a model of sentence-transformers, or module:function")  # fmt: skip
    add("--threshold", type=float, metavar="GRADE", help="POSH's fixed threshold, a grade from 1 "
        "to 5 (default: 2, below which POSH itself counts an element as absent)")  # fmt: skip
    add = options.add_reading(command, "generation", "reference", "mistakes", "omissions")
    _add_split(add)
    add("--image", metavar="COLUMN", help="image column: an image's rows are resampled together "
        "(default: uuid or image, if present)")  # fmt: skip


def _add_input(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument("input", metavar="INPUT", nargs="?" if default else None, default=default,
                         help=f"a dataset, or a table: {options.INPUT_FORMATS}")  # fmt: skip


def _add_split(add: options.AddFlag) -> None:
    add("--split", metavar="NAME", default="test", help="split of a dataset")


def _add_image(add: options.AddFlag) -> None:
    add("--image", metavar="COLUMN", default="image", help="image column, if present: an image's "
        "rows are resampled together")  # fmt: skip


def _add_images(add: options.AddFlag) -> None:
    add("--images", metavar="DIR", type=Path, help="folder that image paths and names are "
        "relative to, for metrics that see images and for --page (default: of the page, INPUT's "
        "folder)")  # fmt: skip


def _add_paper(add: options.AddFlag) -> None:
    add("--paper", choices=("3", "6", "none"), default="3", help="table of the paper to print "
        "below ours: 3 (selected metrics), 6 (all)")  # fmt: skip


def _add_text_measures(command: argparse.ArgumentParser) -> None:
    command.add_argument("--baseline", metavar="NAME", action="append", default=[], help="length, "
                         "words, bleu, rouge, meteor, cider, random or all; separated by commas "
                         "or repeated; the table lists those that are not installed")  # fmt: skip
    add = command.add_argument_group("more metrics to measure").add_argument
    add("--no-posh", action="store_true", help="do not score POSH")
    add("--column", metavar="NAME", action="append", default=[], help="scores in the judgments' "
        "own columns: NAME, or NAME_mistakes, NAME_omissions, NAME_overall; for pairs, 1 and 2 "
        "follow each name; repeatable")  # fmt: skip
    add("--scores", metavar="NAME=FILE", action="append", default=[], help="table of scores with "
        "generation, reference and either precision, recall, f1 (as `posh-reward score` "
        "writes) or score; repeatable")  # fmt: skip
    add("--llm-judge", metavar="MODEL", help="language model to ask for scores by the paper's "
        "prompts: a name or a settings file of configs/judge")  # fmt: skip
    add("--llm-sees", choices=("reference", "image", "both"), default="reference", help="what "
        "--llm-judge compares a text with")  # fmt: skip
    add("--harmonic-judge", metavar="MODEL", help="model that sees images, to run HarmonicEval "
        "with: a name or a settings file of configs/judge")  # fmt: skip
    add("--gamma", type=float, default=0.75, help="HarmonicEval's weights: from 0 (the surest "
        "criterion alone) to 1 (equal weights)")  # fmt: skip
    add("--criteria", type=_parse_criteria, default=CRITERIA, metavar="NAME,...",
        help="HarmonicEval's criteria; the paper's for short captions are "
        "correctness,completeness (default: all five)")  # fmt: skip


def _parse_criteria(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= set(CRITERIA) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: use some of {','.join(CRITERIA)}")
    return names


JUDGED_AXES = ("mistakes", "omissions", "overall")
OPTIONAL_COLUMNS = ("image", "uuid", "id")
"""Default names of columns that a table may lack."""


def report_pairs(flags: argparse.Namespace) -> int:
    from posh_reward.study.agreement.judged_items import list_judged_pairs
    from posh_reward.study.agreement.preferences import preferences_report

    preferences, settings = load_preferences(flags), _build_settings(flags)
    settings = replace(settings, measures=_add_kinds(settings.measures))
    report = preferences_report(preferences, settings)
    write_page(list_judged_pairs(preferences, report), report, settings, flags)
    return show_report(report, flags)


def load_preferences(flags: argparse.Namespace) -> Preferences:
    """Read the pairs that the flags name, by DOCENT's columns if the flags name none."""
    from posh_reward.study.agreement.preferences import PairColumns, read_preferences

    rows, columns = _load_rows(flags), PairColumns()
    if flags.label is not None:
        labels = map_axes(flags.label, "--label") or _find_labels(rows)
        columns = PairColumns(
            flags.generation1, flags.generation2, flags.reference, flags.image, labels
        )
    return read_preferences(rows, columns, flags.input, images=flags.images)


def _find_labels(rows: list[Row]) -> dict[str, str]:
    """Map the axes that rows have a column for to its name."""
    return {axis: axis for axis in JUDGED_AXES if any(axis in row for row in rows)}


def report_caparena(flags: argparse.Namespace) -> int:
    from posh_reward.study.agreement.judged_items import list_judged_pairs
    from posh_reward.study.agreement.metric_scores import ContradictedShare
    from posh_reward.study.agreement.preferences import caparena_report, read_arena

    arena = read_arena(_load_rows(flags), flags.input, flags.images)
    settings = _build_settings(flags)
    # Battles are judged overall, not for mistakes alone.
    measures = [each for each in settings.measures if not isinstance(each, ContradictedShare)]
    report = caparena_report(arena, replace(settings, measures=measures))
    write_page(list_judged_pairs(arena, report), report, settings, flags)
    return show_report(report, flags)


def report_ratings(flags: argparse.Namespace) -> int:
    from posh_reward.study.agreement.judged_items import list_judged_texts
    from posh_reward.study.agreement.ratings import ratings_report

    ratings, settings = load_text_ratings(flags), _build_settings(flags)
    settings = replace(settings, measures=_add_kinds(settings.measures))
    report = ratings_report(ratings, settings)
    write_page(list_judged_texts(ratings, report), report, settings, flags)
    return show_report(report, flags)


def load_text_ratings(flags: argparse.Namespace) -> TextRatings:
    from posh_reward.study.agreement.ratings import RatingColumns, read_ratings

    columns = RatingColumns(
        flags.generation,
        flags.reference,
        flags.image,
        choose_rating_columns(flags),
        "mean" if flags.average_raters else "each",
        flags.group,
    )
    return read_ratings(_load_rows(flags), columns, flags.input, flags.images)


def choose_rating_columns(flags: argparse.Namespace) -> dict[str, str]:
    from posh_reward.study.agreement.judgment_files import LAYOUTS_WITH_AXIS_RATINGS

    if not flags.rating and flags.layout in LAYOUTS_WITH_AXIS_RATINGS:
        return {axis: axis for axis in JUDGED_AXES}
    return map_axes(flags.rating or ["rating"], "--rating")


def report_spans(flags: argparse.Namespace) -> int:
    from posh_reward.study.agreement.localisation import SpanColumns, read_marks, spans_report

    rows = _load_rows(flags)
    has_ids = any("uuid" in row for row in rows)
    image = flags.image or ("uuid" if has_ids else "image")
    columns = SpanColumns(flags.generation, flags.reference, flags.mistakes, flags.omissions, image)
    marks = read_marks(rows, columns, flags.input)
    localisers, missing = _load_localisers(flags)
    settings = replace(_build_resampling(flags), missing=missing, against=flags.against)
    report = spans_report(marks, localisers, settings)
    if flags.page is not None:
        _write_marked_page(marks, report, localisers[0], flags)
    return show_report(report, flags)


def _write_marked_page(
    marks: SpanAnnotations,
    report: AgreementReport,
    posh: Localiser,
    flags: argparse.Namespace,
) -> None:
    from posh_reward.study.agreement.judged_marks import list_marked_items
    from posh_reward.study.agreement.judged_page import marked_page
    from posh_reward.study.agreement.metric_scores import PoshMeasure

    if not isinstance(posh, PoshMeasure):
        raise InputError("--page shows POSH's marks: leave out --no-posh")
    items = list_marked_items(marks, posh)
    page = marked_page(items, _set_title(report, flags), posh, _open_images(flags))
    options.write_file(Path(flags.page), page.encode("utf-8"))


def _load_localisers(flags: argparse.Namespace) -> tuple[list[Localiser], list[tuple[str, str]]]:
    """List metrics that locate errors, and (name, remedy) of those that cannot work here."""
    from posh_reward.models.encoders import load_encoder
    from posh_reward.study.agreement.baselines import EmbeddingAlerts, Random
    from posh_reward.study.agreement.metric_scores import PoshMeasure

    posh = options.load_posh(flags)
    localisers: list[Localiser] = []
    missing: list[tuple[str, str]] = []
    if not flags.no_posh:
        localisers.append(PoshMeasure(posh, flags.threshold))
    if flags.random:
        localisers.append(Random())
    if flags.encoder is not None:
        try:
            encoder = load_encoder(flags.encoder)
        except MissingDependencyError as error:
            missing += [(name, str(error)) for name in ("4GramEmbed", "SGEmbed")]
        else:
            for reader in (None, posh.graph_reader):
                localisers.append(EmbeddingAlerts(encoder, flags.encoder, reader))
    if not localisers:
        raise InputError("no metric to measure: leave out --no-posh, or add --random")
    return localisers, missing


def map_axes(columns: list[str], flag: str) -> dict[str, str]:
    """Map axes to columns, from ``["mistakes=P", ...]`` or from ``["P"]`` for all axes."""
    by_axis: dict[str, str] = {}
    for each in columns:
        axis, equals, column = each.partition("=")
        named = {axis: column} if equals else dict.fromkeys(JUDGED_AXES, each)
        for one in named:
            if one not in JUDGED_AXES or one in by_axis:
                why = "is named twice" if one in by_axis else "is unknown"
                use = ", ".join(JUDGED_AXES)
                raise InputError(f"{flag} {each!r}: the axis {one!r} {why}: use {use}")
        by_axis |= named
    return by_axis


def _load_rows(flags: argparse.Namespace) -> list[Row]:
    from posh_reward.study.agreement.judgment_files import (
        READERS_BY_LAYOUT,
        check_columns,
        read_rows,
    )

    options.check_replaceable(flags.json, options.FIGURES_START)
    options.check_replaceable(flags.page)
    if flags.layout is not None:
        return READERS_BY_LAYOUT[flags.layout](Path(flags.input), flags.reference_file)
    rows = read_rows(
        flags.input, split=flags.split, format=flags.format, delimiter=flags.delimiter,
        images=flags.harmonic_judge is not None or flags.llm_sees != "reference"
        or flags.page is not None,
    )  # fmt: skip
    if flags.image not in (None, *OPTIONAL_COLUMNS):
        check_columns(rows, {"--image": flags.image}, flags.input)
    return rows


def _build_resampling(flags: argparse.Namespace) -> AgreementSettings:
    from posh_reward.study.agreement.agreement_report import AgreementSettings

    return AgreementSettings(resamples=flags.resamples, seed=flags.seed, quiet=flags.quiet)


def _build_settings(flags: argparse.Namespace) -> AgreementSettings:
    measures, missing = _load_measures(flags)
    return replace(
        _build_resampling(flags), measures=measures, columns=flags.column, missing=missing,
        against=flags.against, table=None if flags.paper == "none" else int(flags.paper),
    )  # fmt: skip


def _load_measures(flags: argparse.Namespace) -> tuple[list[Measure], list[tuple[str, str]]]:
    """List metrics that score texts, and (name, remedy) of those that cannot work here."""
    from posh_reward.study.agreement.baselines import load_baselines
    from posh_reward.study.agreement.judgment_files import read_rows
    from posh_reward.study.agreement.metric_scores import (
        ContradictedShare,
        PoshMeasure,
        ScoresFile,
    )

    posh = options.load_posh(flags)
    measures: list[Measure] = []
    if not flags.no_posh:
        measure = PoshMeasure(posh)
        measures.append(measure)
        if posh.sentence_reader is not None:
            measures.append(ContradictedShare(measure))
    for each in flags.scores:
        name, equals, file = each.partition("=")
        if not (name and equals and file):
            raise InputError(f"--scores {each!r}: write NAME=FILE")
        measures.append(ScoresFile(name, read_rows(file), file))
    baselines, missing = load_baselines(flags.baseline)
    measures += baselines
    if flags.llm_judge is not None:
        from posh_reward.models.model import load_model
        from posh_reward.study.agreement.baselines import LlmScores

        measures.append(LlmScores(load_model(flags.llm_judge), flags.llm_sees, posh.store))
    if flags.harmonic_judge is not None:
        from posh_reward.other_metrics.harmonic_eval import HarmonicEval
        from posh_reward.study.agreement.metric_scores import HarmonicMeasure

        harmonic = HarmonicEval(
            flags.harmonic_judge, flags.gamma, posh.store, criteria=flags.criteria
        )
        measures.append(HarmonicMeasure(harmonic))
    if not measures and not flags.column:
        raise InputError(
            "no metric to measure: leave out --no-posh, or add --column, --scores, --baseline, "
            "--llm-judge or --harmonic-judge"
        )
    return measures, missing


def _add_kinds(measures: Sequence[Measure]) -> list[Measure]:
    """Add POSH's scores by kind of element, if POSH is measured, after all others."""
    from posh_reward.study.agreement.metric_scores import KindScores, PoshMeasure
    from posh_reward.types import KINDS

    kinds: list[Measure] = []
    for each in measures:
        if isinstance(each, PoshMeasure):
            kinds += [KindScores(each, kind) for kind in KINDS]
    return [*measures, *kinds]


def write_page(
    judged: JudgedSet,
    report: AgreementReport,
    settings: AgreementSettings,
    flags: argparse.Namespace,
) -> None:
    """Write the page of judged items, if the flags name one."""
    from posh_reward.study.agreement.judged_page import judged_page
    from posh_reward.study.agreement.metric_scores import PoshMeasure

    if flags.page is None:
        return
    scored: dict[TextPair, Scores] = {}
    for measure in settings.measures:
        if isinstance(measure, PoshMeasure):
            scored = measure.scored
    page = judged_page(judged, _set_title(report, flags), scored, _open_images(flags))
    options.write_file(Path(flags.page), page.encode("utf-8"))


def _open_images(flags: argparse.Namespace) -> LocalImages:
    """Images of the page, in the folder of the input unless their paths say otherwise."""
    from posh_reward.pages.html import THUMBNAIL_SIDE_PIXELS, LocalImages

    return LocalImages([Path(flags.input).parent], THUMBNAIL_SIDE_PIXELS)


def _set_title(report: AgreementReport, flags: argparse.Namespace) -> AgreementReport:
    title = flags.title or report.title
    if not flags.title and Path(flags.input).is_file():  # pages are handed on
        title = title.replace(flags.input, Path(flags.input).name, 1)
    return replace(report, title=title)


def show_report(report: AgreementReport, flags: argparse.Namespace) -> int:
    from posh_reward.study.agreement.agreement_report import as_json, terminal_text

    report = _set_title(report, flags)
    options.show_figures(flags, as_json(report), terminal_text(report))
    names_by_signature: dict[str, str] = {}  # the first of them: POSH's parts share its signature
    for line in report.lines:
        names_by_signature.setdefault(line.signature, line.name)
    for signature, name in names_by_signature.items():
        if signature and not flags.quiet:
            print(f"{name}: {signature}", file=sys.stderr)
    return EXIT_INCOMPLETE if any(line.failures for line in report.lines) else EXIT_OK
