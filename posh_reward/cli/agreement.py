"""``posh-reward agreement``: how well metrics agree with people."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli.exits import EXITS, OK
from posh_reward.errors import InputError
from posh_reward.study.rows.formats import FORMATS

if TYPE_CHECKING:
    from posh_reward.study.agreement.items import Measure
    from posh_reward.study.agreement.report import Report
    from posh_reward.study.agreement.run import Choices
    from posh_reward.study.rows.journal import Row

AXES = ("mistakes", "omissions", "overall")
ABOUT = """\
Measures how well metrics agree with people's judgments, by the procedures of the paper, and prints
the paper's figures below ours. POSH is scored on the fly, by the flags of `metric`; other metrics
come from columns of the judgments, from files of scores, or from --baseline. Every metric is
compared with the first: intervals and tests by paired bootstrap over images. Higher is better
everywhere. With --store a run that broke off goes on where it was."""
DOCENT = """\
Coarse judgments in DOCENT's form (paper, A.3.2): two texts, a reference, and on each axis one of
1_much_better, 1_slightly_better, equal, 2_slightly_better, 2_much_better. INPUT is a dataset on the
hub, its local copy, or a file with the same columns."""
CAPARENA = """\
CapArena's caparena_annots_eval.json, or a file with the same columns: img, ref, source1, source2,
caption1, caption2, winner, cluster. Pairs with a human's text are left out; winner skip, bad and
equal are ties. Texts are scored by their overall score."""
PAIRS = """\
Any table of two texts and a reference. A label is one of DOCENT's, or a number from 2 (the first
text is much better) to -2. Without --label the first text is the better one in every row."""
RATINGS = """\
Any table of texts that people rated one by one: candidate, reference (a text, or a list of texts)
and ratings (a number, or a list with one for each rater)."""


def add_flags(command: argparse.ArgumentParser, metric: argparse.ArgumentParser) -> None:
    """Adds the commands below ``agreement``.

    Args:
        command: the parser of ``agreement``.
        metric: has the flags that describe POSH.
    """
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    for name, words, about, run in (
        ("docent", "DOCENT's coarse judgments", DOCENT, docent),
        ("caparena", "CapArena's battles", CAPARENA, caparena),
        ("pairs", "any pairs that people compared", PAIRS, pairs),
        ("ratings", "any texts that people rated", RATINGS, ratings),
    ):
        each = chosen.add_parser(name, help=words, parents=[metric], description=about,
                                 epilog=EXITS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
        each.set_defaults(command=run)
        FLAGS[name](each)
        _metrics(each)
        _output(each)


def _docent(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", nargs="?", default="amitha/docent-eval-coarse",
                         help="default: amitha/docent-eval-coarse, on the hub")  # fmt: skip
    _table(command, split=True)
    _paper(command)


def _caparena(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="caparena_annots_eval.json")
    _table(command)
    _paper(command)


def _pairs(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help="JSON lines, CSV, TSV, Parquet, or a dataset")
    add("--text1", metavar="COLUMN", default="text1", help="default: text1")
    add("--text2", metavar="COLUMN", default="text2", help="default: text2")
    add("--reference", metavar="COLUMN", default="reference", help="default: reference")
    add("--label", metavar="[AXIS=]COLUMN", action="append", default=[], help="labels, of all axes "
        "or of mistakes, omissions or overall; may be repeated")  # fmt: skip
    _image(command)
    _table(command, split=True)


def _ratings(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help="JSON lines, CSV, TSV, Parquet, or a dataset")
    add("--candidate", metavar="COLUMN", default="candidate", help="default: candidate")
    add("--references", metavar="COLUMN", default="references", help="a text or a list of texts; "
        "default: references")  # fmt: skip
    add(
        "--combine",
        choices=("join", "best", "mean"),
        default="join",
        help="several references: "
        "join them into one text of sentences (default), or take the best or the mean score",
    )
    add("--rating", metavar="[AXIS=]COLUMN", action="append", default=[], help="ratings, of all "
        "axes or of mistakes, omissions or overall; may be repeated; default: rating")  # fmt: skip
    add("--raters", choices=("each", "mean"), default="each", help="several ratings of a text: "
        "count each (default), or their mean")  # fmt: skip
    add("--unfold", metavar="COLUMN", help="a column of lists of rows, such as the candidates of "
        "an image: each becomes a row")  # fmt: skip
    _image(command)
    _table(command, split=True)


FLAGS = {"docent": _docent, "caparena": _caparena, "pairs": _pairs, "ratings": _ratings}


def _image(command: argparse.ArgumentParser) -> None:
    command.add_argument("--image", metavar="COLUMN", default="image", help="rows of one image are "
                         "resampled together; default: image, if there is one")  # fmt: skip


def _table(command: argparse.ArgumentParser, split: bool = False) -> None:
    add = command.add_argument
    add("--format", choices=tuple(FORMATS), help="of the input; default: what its ending says")
    add("--delimiter", metavar="CHARACTER", help="between the cells of an input in CSV")
    if split:
        add("--split", metavar="NAME", default="test", help="of a dataset; default: test")


def _paper(command: argparse.ArgumentParser) -> None:
    command.add_argument("--paper", choices=("3", "6", "none"), default="3", help="table of the "
                         "paper to print below: 3 (selected; default), 6 (all)")  # fmt: skip


def _metrics(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("metrics to measure").add_argument
    add("--no-posh", action="store_true", help="do not score POSH")
    add("--column", metavar="NAME", action="append", default=[], help="scores in the judgments' "
        "own columns: NAME, or NAME_mistakes, NAME_omissions, NAME_overall; for pairs each with 1 "
        "and 2 after it; may be repeated")  # fmt: skip
    add("--scores", metavar="NAME=FILE", action="append", default=[], help="a table of generation, "
        "reference and mistakes, omissions, overall (as `posh-reward score` writes) or score; may "
        "be repeated")  # fmt: skip
    add("--against", metavar="NAME", help="the metric that the others are compared with; default: "
        "the first")  # fmt: skip
    add("--resamples", type=int, default=1000, metavar="N", help="of images; default: 1000; 0: no "
        "intervals")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="of the resamples; default: 0")


def _output(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("output").add_argument
    add("--title", default="", help="heading of the table")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--html", metavar="FILE", help="also write a page")
    add("--plot", metavar="FILE", help="also draw a plot (.png, .svg, .pdf; needs Matplotlib)")
    add("-q", "--quiet", action="store_true", help="no progress bars")


def docent(flags: argparse.Namespace) -> int:
    """DOCENT's coarse judgments."""
    from posh_reward.study.agreement.pairs import PairColumns, compared
    from posh_reward.study.agreement.run import pairs_report

    judged = compared(_rows(flags), PairColumns(), flags.input)
    return _show(pairs_report(judged, _choices(flags)), flags)


def caparena(flags: argparse.Namespace) -> int:
    """CapArena's battles."""
    from posh_reward.study.agreement.caparena import arena
    from posh_reward.study.agreement.run import caparena_report

    return _show(caparena_report(arena(_rows(flags), flags.input), _choices(flags)), flags)


def pairs(flags: argparse.Namespace) -> int:
    """Any pairs that people compared."""
    from posh_reward.study.agreement.pairs import PairColumns, compared
    from posh_reward.study.agreement.run import pairs_report

    columns = PairColumns(
        flags.text1, flags.text2, flags.reference, flags.image, by_axis(flags.label, "--label")
    )
    return _show(pairs_report(compared(_rows(flags), columns, flags.input), _choices(flags)), flags)


def ratings(flags: argparse.Namespace) -> int:
    """Any texts that people rated."""
    from posh_reward.study.agreement.ratings import RatingColumns, rated
    from posh_reward.study.agreement.run import ratings_report

    named = by_axis(flags.rating or ["rating"], "--rating")
    columns = RatingColumns(flags.candidate, flags.references, flags.image, named, flags.raters)
    return _show(ratings_report(rated(_rows(flags), columns, flags.input), _choices(flags)), flags)


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
    from posh_reward.study.agreement.sources import read_rows

    return read_rows(
        flags.input,
        split=getattr(flags, "split", "test"),
        format=flags.format,
        delimiter=flags.delimiter,
        unfold=getattr(flags, "unfold", None),
    )


def _choices(flags: argparse.Namespace) -> Choices:
    from posh_reward.study.agreement.page import check_plot
    from posh_reward.study.agreement.run import Choices

    if flags.plot is not None:
        check_plot(flags.plot)
    paper = getattr(flags, "paper", "none")
    return Choices(
        _measures(flags),
        flags.column,
        (),
        getattr(flags, "combine", "join"),
        flags.against,
        flags.resamples,
        flags.seed,
        None if paper == "none" else int(paper),
        flags.quiet,
        flags.title,
    )


def _measures(flags: argparse.Namespace) -> list[Measure]:
    from posh_reward.cli.commands import metric_of
    from posh_reward.study.agreement.measures import PoshMeasure, ScoresFile
    from posh_reward.study.agreement.sources import read_rows

    found: list[Measure] = [] if flags.no_posh else [PoshMeasure(metric_of(flags))]
    for each in flags.scores:
        name, equals, file = each.partition("=")
        if not (name and equals and file):
            raise InputError(f"--scores {each!r}: write NAME=FILE")
        found.append(ScoresFile(name, read_rows(file), file))
    if not found and not flags.column:
        raise InputError("no metric to measure: leave out --no-posh, or name --column or --scores")
    return found


def _show(report: Report, flags: argparse.Namespace) -> int:
    from posh_reward.cli.texts import write_text
    from posh_reward.study.agreement.page import page_of, plot
    from posh_reward.study.agreement.report import as_json
    from posh_reward.study.agreement.table import text_of

    write_text(json.dumps(as_json(report), indent=2) if flags.json else text_of(report))
    for line in report.lines:
        if line.signature and not flags.quiet:
            print(f"{line.name}: {line.signature}", file=sys.stderr)
    if flags.html is not None:
        Path(flags.html).write_text(page_of(report), encoding="utf-8")
    if flags.plot is not None:
        plot(report, Path(flags.plot))
    return OK
