"""``posh-reward prove``: make verified questions about images, and score responses to them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from posh_reward.cli import tables
from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError

PROVE = """\
PROVE: how helpful answers to questions about an image are, and how truthful (docs/prove.md).
`make` has a model write questions from captions and keeps those that a program verifies, `score`
scores what a model under test replied to them."""
MAKE = """\
Makes questions with answers from detailed captions. A model writes them, each with a program that
is run, confined, over the caption's scene graph; what does not verify is dropped. OUT has the kept
ones: id, caption, image, question, answer, program. OUT.made.jsonl has all candidates with the
reasons why they were dropped. Killed at any moment, the same command goes on where it was."""
SCORE = """\
Scores responses: how much of the answer they say (helpfulness), and how much of what they say the
caption, or the image, bears out (truthfulness); 1 is best. OUT has one row for each, with every
tuple and its score. Killed at any moment, the same command goes on where it was. `posh-reward
report` makes a page of what it wrote."""
SCORED = ("response", "answer", "question", "caption")
MODEL = "a settings file such as configs/judge/server.yaml, or the name of a model"
Describe = Callable[[argparse.ArgumentParser, str], argparse.ArgumentParser]


def add_commands(command: argparse.ArgumentParser, described: Describe) -> None:
    """Adds ``make`` and ``score``."""
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    _make(described(chosen.add_parser("make", help="write verified questions"), MAKE))
    _score(described(chosen.add_parser("score", help="score responses"), SCORE))


def _make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    tables.add_files(command)
    tables.add_columns(command, "caption", image="which the judge of entailment looks at")
    add("--writer", metavar="MODEL", required=True, help=f"who writes the questions: {MODEL}")
    add("--reviewer", metavar="MODEL", help="a model that drops trivial, incomplete and unnatural "
        "pairs")  # fmt: skip
    add("--taboo", metavar="FILE", help="words that no pair may have, one a line")
    _shared(command, "captions")
    command.set_defaults(command=make)


def _score(command: argparse.ArgumentParser) -> None:
    tables.add_files(command)
    tables.add_columns(command, *SCORED, image="which the judge of entailment looks at")
    _shared(command, "responses")
    command.set_defaults(command=score)


def _shared(command: argparse.ArgumentParser, rows: str) -> None:
    add = command.add_argument
    add("--entailment", metavar="MODEL", help="a model that sees, which is asked what the image "
        "shows")  # fmt: skip
    add("--tuples", metavar="MODEL", default="graph", help="who reads texts into tuples: graph "
        "(ours, the default) or a model")  # fmt: skip
    add("--encoder", metavar="NAME", default="embedded", help="what compares texts: embedded "
        "(words, the default), a model of sentence-transformers, or module:function")  # fmt: skip
    add("--store", metavar="FILE", help="keeps scene graphs and models' answers for other runs")
    tables.add_running(command, rows, 16)


def make(flags: argparse.Namespace) -> int:
    """Writes verified questions."""
    from posh_reward.metrics.prove.pair_maker import PairMaker
    from posh_reward.study.prove import made_summary, make_pairs

    how = tables.how_of(flags, {"caption": flags.caption})
    taboo = _words(Path(flags.taboo)) if flags.taboo else []
    maker = PairMaker(
        flags.writer, flags.reviewer, flags.entailment, flags.tuples, encoder=flags.encoder,
        taboo=taboo, store=flags.store,
    )  # fmt: skip
    try:
        rows = make_pairs(maker, flags.input, flags.output, how)
    finally:
        maker.close()
    if not flags.quiet:
        print(f"{made_summary(rows)}\n{maker.signature}", file=sys.stderr)
    return UNSCORED if any(row["failure"] for row in rows) else OK


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the words of --taboo: {error}") from None


def score(flags: argparse.Namespace) -> int:
    """Scores responses."""
    from posh_reward.metrics.prove.prove import Prove
    from posh_reward.study.prove import score_responses

    how = tables.how_of(flags, {name: getattr(flags, name) for name in SCORED})
    prove = Prove(flags.encoder, flags.entailment, flags.tuples, store=flags.store)
    means = score_responses(prove, flags.input, flags.output, how)
    if not flags.quiet:
        print(f"{means}\n{prove.signature}", file=sys.stderr)
    return UNSCORED if means.failures else OK
