"""Flags, and the words of ``--help``."""

from __future__ import annotations

import argparse
from textwrap import fill

from posh_reward.cli import (
    agreement_flags,
    calibrate,
    commands,
    fetch,
    others,
    packets,
    prove,
    store,
    tables,
)
from posh_reward.cli.exits import EXITS
from posh_reward.cli.init import INIT, init
from posh_reward.study.rows.posh_rows import EXPLAINED

MEANING = fill(EXPLAINED + ".", 100)
SCORE = f"""\
Scores each generation of a table against its reference. Writes one row for each pair: id, model and
image if there are such columns, generation, reference, mistakes, omissions and overall, the number
of elements on each side, failure_kind and failure, unparsed, signature. A pair with a missing cell
or an empty reference has no score, and its row says why. An empty generation is scored: it makes no
mistakes (1), with 0 generation_elements.

{MEANING}

Killed at any moment, the same command goes on where it was. Except for JSON lines, what is done is
kept in OUT.journal.jsonl until OUT is whole. A text that a spreadsheet would run as a formula is
written to CSV with an apostrophe before it."""
EXPLAIN = f"""\
Scores one pair and shows it in the terminal. A text may come from a file (@caption.txt) or from
standard input (@-); to begin a text with an at sign, write .

{MEANING}"""
REPORT = f"""\
Writes one page that needs no network: distributions, a table to sort and search, and for each
pair the generation with its mistakes and the reference with its omissions, marked by grade.
Rows of several models are compared, also in the terminal: means, and differences to a baseline,
paired by id; those of one id are shown side by side. Where image is the path of an image, from
here or from the folder of SCORES, or numbers the rows of --dataset, the page shows it small (needs
Pillow). With Matplotlib the page has plots of the models. Score with --elements, or there is
nothing to mark.

Of what `harmonic score`, `rubric score` and `prove score` wrote, the page shows each score with a
bar and its reason, next to the image and the texts.

{MEANING}"""
STORE = """\
Looks into, or clears, a file that `--store` made: scene graphs and language models' answers, kept
for other runs. Kinds are graph, rewrite and verdict. A space names all that an answer depends
on."""
CLEAR = """\
Removes what a store holds, or a part of it, and gives the room back to the disk. Runs that use it
may go on. A damaged store is deleted."""


def command_line() -> argparse.ArgumentParser:
    """All commands with their flags; each sets ``command``, a function of the flags."""
    from posh_reward.metrics.metric import package_version

    parser = _described(
        argparse.ArgumentParser("posh-reward"),
        "POSH: how truthful and how complete descriptions of images are.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {package_version()}")
    chosen = parser.add_subparsers(required=True, metavar="COMMAND")
    _score(_described(chosen.add_parser("score", help="score the pairs of a table"), SCORE))
    _explain(_described(chosen.add_parser("explain", help="show one pair with marks"), EXPLAIN))
    _report(_described(chosen.add_parser("report", help="write a page about scores"), REPORT))
    agreement_flags.add_flags(
        _described(
            chosen.add_parser("agreement", help="measure agreement with people"),
            agreement_flags.ABOUT,
        ),
        _metric_flags(),
    )
    fitting = chosen.add_parser("calibrate", help="fit weights to people's judgments")
    calibrate.add_flags(_described(fitting, calibrate.ABOUT), _metric_flags())
    people = chosen.add_parser("packets", help="let people compare models, blind")
    packets.add_commands(_described(people, packets.PACKETS), _described)
    answers = chosen.add_parser("prove", help="make questions about images, score responses")
    prove.add_commands(_described(answers, prove.PROVE), _described)
    harmonic = chosen.add_parser("harmonic", help="score texts about images, no references")
    others.add_harmonic(_described(harmonic, others.HARMONIC), _described)
    rubric = chosen.add_parser("rubric", help="score texts by points, with reasons")
    others.add_rubric(_described(rubric, others.RUBRIC), _described)
    _store(_described(chosen.add_parser("store", help="look into a store, or clear it"), STORE))
    downloads = chosen.add_parser("fetch", help="download what a run needs")
    fetch.add_flags(_described(downloads, fetch.FETCH))
    _init(_described(chosen.add_parser("init", help="copy recipes and configurations"), INIT))
    return parser


def _described(parser: argparse.ArgumentParser, what: str) -> argparse.ArgumentParser:
    parser.description, parser.epilog = what, EXITS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _score(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    tables.add_files(command)
    tables.add_columns(command, "generation", "reference")
    _witness(command, "the column image is looked at")
    _dataset(command)
    add("--elements", action="store_true", help="add each element with its grade and its place")
    tables.add_running(command, "pairs")
    _metric(command)
    command.set_defaults(command=commands.score)


def _explain(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--generation", metavar="TEXT", required=True, help="what was written")
    add("--reference", metavar="TEXT", required=True, help="what it is compared with")
    add("--image", metavar="FILE", help="the image, for a witness")
    _witness(command, "looks at --image")
    add(
        "--worst",
        type=tables.positive,
        default=10,
        metavar="N",
        help="elements to list; default: 10",
    )
    add("--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which "
        "respects NO_COLOR")  # fmt: skip
    _metric(command)
    command.set_defaults(command=commands.explain)


def _report(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("scores", metavar="SCORES", help="what `posh-reward score --elements` wrote; - for stdin")
    add("-o", "--output", metavar="HTML", default="-", help="default: standard output")
    tables.add_format(command)
    add("--title", help="the page's heading")
    add("--baseline", metavar="MODEL", help="what other models are compared with; default: the "
        "first model of SCORES")  # fmt: skip
    add("--plots", metavar="DIR", help="also draw leaderboard, length and precision_recall, as "
        ".png and .svg (needs Matplotlib)")  # fmt: skip
    _dataset(command)
    command.set_defaults(command=commands.report)


def _dataset(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--dataset", metavar="NAME", help="whose rows image numbers, as recipes/generate.py writes "
        "it: the one that was described, with all its options")  # fmt: skip
    add("--split", default="test", help="of the dataset; default: test")


def _store(command: argparse.ArgumentParser) -> None:
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    info = _described(chosen.add_parser("info", help="show what is in it"), "Shows rows and bytes.")
    info.add_argument("path", metavar="PATH", help="the store")
    info.add_argument("--json", action="store_true", help="for programs")
    info.set_defaults(command=store.info)
    clear = _described(chosen.add_parser("clear", help="remove what is in it"), CLEAR)
    clear.add_argument("path", metavar="PATH", help="the store")
    clear.add_argument("--kind", choices=("graph", "rewrite", "verdict"), help="only this kind")
    clear.add_argument("--space", metavar="TEXT", default="", help="only spaces with this text in "
        "them, such as a model's name")  # fmt: skip
    clear.add_argument("--yes", action="store_true", help="delete a file even if it does not look "
        "like a store")  # fmt: skip
    clear.set_defaults(command=store.clear)


def _init(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", metavar="DIR", help="where to; made if it is not there")
    command.set_defaults(command=init)


def _metric_flags() -> argparse.ArgumentParser:
    """The metric's flags on their own, for commands that are described elsewhere."""
    parser = argparse.ArgumentParser(add_help=False)
    _metric(parser)
    return parser


def _metric(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("metric", "a flag wins over the configuration file")
    add = group.add_argument
    add("--config", metavar="FILE", help="published, which is POSH as it was published; or YAML "
        "or JSON: judge, parser, coref, preset, witness, supported, store, weights, "
        "max_characters, pairs_at_once")  # fmt: skip
    add("--judge", metavar="NAME", help="default: embedded, which needs no download; or vllm "
        "(Qwen3-14B) or transformers (Qwen3-1.7B); or a settings file")  # fmt: skip
    add("--parser", metavar="NAME", help="default: embedded; or an installed spaCy pipeline")
    add("--coref", metavar="NAME", help="default: rules, which needs no download; or none, "
        "or maverick, which needs a setup (docs/coref.md)")  # fmt: skip
    add(
        "--preset",
        metavar="NAME",
        help="wording of the questions and rules of the graphs: released (default), paper, "
        "prefix-first, mended",
    )
    add("--store", metavar="FILE", help="keeps scene graphs and language models' answers for other "
        "runs; made if it is not there")  # fmt: skip


def _witness(command: argparse.ArgumentParser, where: str) -> None:
    command.add_argument(
        "--witness",
        metavar="NAME",
        help="who is asked about the image where the reference does not support what was "
        f"written ({where}): judge, for a judge that sees; a settings file of a model that does; "
        "or the name of drawn images, such as scenes:plain=1. Default: nobody",
    )
