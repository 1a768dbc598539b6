"""Flags of ``posh-reward agreement``, and the words of their ``--help``."""

from __future__ import annotations

import argparse
from pathlib import Path

from posh_reward.cli import agreement
from posh_reward.cli.flags import add_metric, describe
from posh_reward.study.rows.tables import FORMATS

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
MMHE = """\
HarmonicEval's human judgments (MMHE): one row for each text, with its task (REG, VQA, VDU, IC), its
image, the question in VQA and VDU, ratings of correctness, completeness, clarity, fluency and
conciseness (a number, or a list with one for each person), and whether it was chosen as the best
of three (true or false, or a list). Accuracy on the pairs of best and other, and Kendall's tau_b
on each criterion. The names of the columns are assumed: give the right ones as flags. Rows of
three texts: --unfold."""

SPANS = """\
Texts in which people marked mistakes (in the generation) and omissions (in the reference) as spans
[start, end): macro F1 over marked and unmarked tokens (paper, Table 2). INPUT is a dataset on the
hub, its local copy, or a file. Baselines with spans: random; with --encoder 4GramEmbed, SGEmbed."""
GRAPHS = """\
Descriptions whose scene graphs people drew: text, entities [{"mentions": [[start, end], ...]}],
attributes [{"spans": [...], "entity": 0}], relations [{"spans": [...], "subject": 0, "object": 1}]
(paper, Table 8)."""
ANSWERS = """\
Questions that people answered by hand: direction (mistakes or omissions), grade, and the answer,
whether the element is in the other text (paper, Table 9). `posh-reward score --elements` writes
elements with direction and grade: add an answer to each, and read them with --unfold elements."""

TABLES = "JSON lines, CSV, TSV, Parquet, or a dataset"
CRITERIA = ("correctness", "completeness", "clarity", "fluency", "conciseness")
"""As in ``metrics.harmonic``, which the help does not load."""


COMMANDS = (
    ("docent", "DOCENT's coarse judgments", DOCENT),
    ("caparena", "CapArena's battles", CAPARENA),
    ("pairs", "any pairs that people compared", PAIRS),
    ("ratings", "any texts that people rated", RATINGS),
    ("mmhe", "HarmonicEval's judgments", MMHE),
    ("spans", "texts with marked mistakes and omissions", SPANS),
    ("graphs", "scene graphs that people drew", GRAPHS),
    ("answers", "questions that people answered", ANSWERS),
)
"""(Name, help, description); ``agreement`` has a function of each name."""


def add_agreement(command: argparse.ArgumentParser) -> None:
    """Add the commands below ``agreement``."""
    describe(command, ABOUT)
    add_of = {
        "docent": (docent_input, _procedure, _paper, _metrics),
        "caparena": (_caparena, _procedure, _paper, _metrics),
        "pairs": (pairs_input, _procedure, _metrics),
        "ratings": (ratings_input, _combine, _metrics),
        "mmhe": (_mmhe, _combine, _metrics),
        "spans": (_spans,),
        "graphs": (_graphs,),
        "answers": (_answers,),
    }
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    for name, words, about in COMMANDS:
        each = describe(commands.add_parser(name, help=words), about)
        if name != "answers":
            add_metric(each)
        each.set_defaults(command=getattr(agreement, name))
        for add in (*add_of[name], output):
            add(each)


def docent_input(command: argparse.ArgumentParser) -> None:
    """Add the flags of DOCENT's judgments."""
    command.add_argument("input", metavar="INPUT", nargs="?", default="amitha/docent-eval-coarse",
                         help="default: amitha/docent-eval-coarse, on the hub")  # fmt: skip
    _images(command)
    _table(command, split=True)


def _caparena(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="caparena_annots_eval.json; with --layout "
                         "caparena-auto a model's file, or the folder of them")  # fmt: skip
    command.add_argument("--layout", choices=("caparena-auto",), help="CapArena-Auto: the judge's "
                         "verdict is the winner")  # fmt: skip
    _images(command)
    _table(command)


def pairs_input(command: argparse.ArgumentParser) -> None:
    """Add the names of the columns of a table of pairs."""
    add = command.add_argument
    add("input", metavar="INPUT", help=TABLES)
    for name in ("text1", "text2"):
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    _reference(command, "reference", "a text")
    add("--label", metavar="[AXIS=]COLUMN", action="append", default=[], help="labels, of all axes "
        "or of mistakes, omissions or overall; may be repeated")  # fmt: skip
    _image(command)
    _images(command)
    _table(command, split=True)


def ratings_input(command: argparse.ArgumentParser) -> None:
    """Add the names of the columns of a table of ratings."""
    add = command.add_argument
    add("input", metavar="INPUT", help=TABLES)
    add("--candidate", metavar="COLUMN", default="candidate", help="default: candidate")
    _reference(command, "references", "a text or a list of texts")
    add("--rating", metavar="[AXIS=]COLUMN", action="append", default=[], help="ratings, of all "
        "axes or of mistakes, omissions or overall; may be repeated; default: rating")  # fmt: skip
    _raters(command)
    add("--unfold", metavar="COLUMN", help="a column of lists of rows, such as the candidates of "
        "an image: each becomes a row")  # fmt: skip
    add("--layout", choices=("flickr8k", "thumb"), help="read the authors' own files: CLIPScore's "
        "flickr8k.json, or mscoco_THumB-1.0.jsonl with --reference-file")  # fmt: skip
    add("--reference-file", metavar="FILE", type=Path, help="THumB's mscoco_references.jsonl")
    _image(command)
    _images(command)
    _table(command, split=True)


def _mmhe(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help=TABLES)
    for name in ("task", "candidate", "question", "best"):
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    _reference(command, "references", "a text or a list of texts, if there is one")
    add("--criterion", metavar="CRITERION=COLUMN", type=_criterion, action="append", default=[],
        help="ratings of a criterion; may be repeated; default: the criterion's name")  # fmt: skip
    _raters(command)
    add("--pairs", choices=("each", "majority", "unanimous"), default="each", help="accuracies "
        "count the pairs of each person's choice (default), or of one choice a page: that of most "
        "people, or of all")  # fmt: skip
    add("--unfold", metavar="COLUMN", help="a column of lists of rows, such as the three texts of "
        "an image: each becomes a row")  # fmt: skip
    add("--paper", dest="tables", type=_tables, default=(2, 3), metavar="N,...", help="tables of "
        "HarmonicEval's paper to print below, of 2 to 7, or none; default: 2,3")  # fmt: skip
    _image(command)
    _images(command)
    _table(command, split=True)


def _criterion(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if name not in CRITERIA or not (equals and column):
        raise argparse.ArgumentTypeError(
            f"{text!r}: write CRITERION=COLUMN with one of {', '.join(CRITERIA)}"
        )
    return name, column


def _tables(text: str) -> tuple[int, ...]:
    numbers = () if text == "none" else tuple(text.split(","))
    if not set(numbers) <= set("234567"):
        raise argparse.ArgumentTypeError(f"{text!r}: name tables from 2 to 7, such as 2,3, or none")
    return tuple(map(int, numbers))


def _criteria(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= set(CRITERIA) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: name some of {','.join(CRITERIA)}")
    return names


def _reference(command: argparse.ArgumentParser, default: str, content: str) -> None:
    command.add_argument("--reference", "--references", metavar="COLUMN", default=default,
                         help=f"{content}; default: {default}")  # fmt: skip


def _raters(command: argparse.ArgumentParser) -> None:
    command.add_argument("--raters", choices=("each", "mean"), default="each", help="several "
                         "ratings of a text: count each (default), or their mean")  # fmt: skip


def _combine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--combine", choices=("native", "join", "best", "mean"), default="native",
                         help="several references: as each metric's library takes them (default: "
                         "BLEU, ROUGE and METEOR take several; POSH and the others one text of "
                         "sentences), joined for all, or the best or the mean score")  # fmt: skip


def _procedure(command: argparse.ArgumentParser) -> None:
    command.add_argument("--procedure", choices=("authors", "strict"), default="authors",
                         help="authors (default): as in the authors' programs, equal scores are a "
                         "win for the first text where the tie threshold is 0, and medians of Elo "
                         "are whole points; strict: equal scores are a tie, medians are exact. "
                         "Without labels of both signs: strict")  # fmt: skip


def _spans(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", nargs="?", default="amitha/docent-eval-granular",
        help="default: amitha/docent-eval-granular, on the hub")  # fmt: skip
    for name in ("generation", "reference", "mistakes", "omissions"):
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    _image(command, "uuid")
    _table(command, split=True)
    add("--no-posh", action="store_true", help="do not score POSH")
    add("--threshold", type=float, metavar="GRADE", help="POSH's fixed threshold, a grade from 1 "
        "to 5; default: 2, below which POSH itself takes an element as absent")  # fmt: skip
    add("--random", action="store_true", help="also measure random scores")
    add("--encoder", metavar="NAME", help="also measure 4GramEmbed and SGEmbed with this encoder: "
        "a model of sentence-transformers, or module:function")  # fmt: skip
    resampling(command)


def _graphs(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="JSON lines or JSON")
    _table(command)
    resampling(command, against=False)


def _answers(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help="JSON lines, CSV, TSV, Parquet")
    add("--answer", metavar="COLUMN", default="answer", help="true or false; default: answer")
    add("--unfold", metavar="COLUMN", help="a column of lists of elements")
    add("--pair", metavar="COLUMN", default="id", help="elements of one pair of texts are "
        "resampled together; default: id, if there is one")  # fmt: skip
    _table(command)
    resampling(command, against=False)


def _image(command: argparse.ArgumentParser, default: str = "image") -> None:
    command.add_argument("--image", metavar="COLUMN", default=default, help="rows of one image are "
                         f"resampled together; default: {default}, if there is one")  # fmt: skip


def _images(command: argparse.ArgumentParser) -> None:
    command.add_argument("--images", metavar="FOLDER", type=Path, help="that paths and names of "
                         "images are relative to, for metrics that see")  # fmt: skip


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
    add("--baseline", metavar="NAME", action="append", default=[], help="length, words, bleu, "
        "rouge, meteor, cider, spice, capture, random or all; may be repeated, or several with "
        "commas; what is not installed is named in the table")  # fmt: skip
    add("--llm", metavar="MODEL", help="a language model asked for scores by the paper's prompts: "
        "a name or a settings file of configs/judge")  # fmt: skip
    add("--llm-sees", choices=("reference", "image", "both"), default="reference", help="what it "
        "compares a text with; default: reference")  # fmt: skip
    add("--harmonic", metavar="MODEL", help="HarmonicEval by this model, which has to see: a name "
        "or a settings file of configs/judge")  # fmt: skip
    add("--gamma", type=float, default=0.75, help="of HarmonicEval, 0 (the surest criterion) to 1 "
        "(equal weights); default: 0.75")  # fmt: skip
    add(
        "--criteria",
        type=_criteria,
        default=CRITERIA,
        metavar="NAME,...",
        help="that HarmonicEval asks; for short captions the paper's are correctness,completeness; "
        "default: all five",
    )
    resampling(command)


def resampling(command: argparse.ArgumentParser, against: bool = True) -> None:
    """Add the flags of intervals and tests."""
    add = command.add_argument_group("intervals and tests").add_argument
    if against:
        add("--against", metavar="NAME", help="the metric that the others are compared with; "
            "default: the first")  # fmt: skip
    add("--resamples", type=count, default=1000, metavar="N", help="of images; default: 1000; "
        "0: no intervals")  # fmt: skip
    add("--seed", type=count, default=0, metavar="N", help="of the resamples; default: 0")


def count(text: str) -> int:
    """Parse a whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def output(command: argparse.ArgumentParser) -> None:
    """Add the flags of the output."""
    add = command.add_argument_group("output").add_argument
    add("--title", default="", help="heading of the table")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--html", metavar="FILE", help="also write a page")
    add("--plot", metavar="FILE", help="also draw a plot (.png, .svg, .pdf; needs Matplotlib)")
    add("-q", "--quiet", action="store_true", help="no progress bars")
