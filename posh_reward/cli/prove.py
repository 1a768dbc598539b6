"""``posh-reward prove``: make verified questions about pictures, and score responses to them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.study.prove.resumed import How

PROVE = """\
PROVE: how helpful answers to questions about a picture are, and how truthful (docs/prove.md).
`make` has a model write questions from captions and keeps those that a program verifies, `score`
scores what a model under test replied to them."""
MAKE = """\
Makes questions with answers from detailed captions. A model writes them, each with a program that
is run, confined, over the caption's scene graph; what does not verify is dropped. OUT has the kept
ones: id, caption, image, question, answer, program. OUT.made.jsonl has all candidates with the
reasons why they were dropped. Killed at any moment, the same command goes on where it was."""
SCORE = """\
Scores responses: how much of the answer they say (helpfulness), and how much of what they say the
caption, or the picture, bears out (truthfulness); 1 is best. OUT has one row for each, in JSON
lines, with every tuple and its score. Killed at any moment, the same command goes on where it
was."""
MODEL = "a settings file such as configs/judge/server.yaml, or the name of a model"
Describe = Callable[[argparse.ArgumentParser, str], argparse.ArgumentParser]


def add_commands(command: argparse.ArgumentParser, described: Describe) -> None:
    """Adds ``make`` and ``score``."""
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    _make(described(chosen.add_parser("make", help="write verified questions"), MAKE))
    _score(described(chosen.add_parser("score", help="score responses"), SCORE))


def _make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _files(command, "a table of captions")
    add("--writer", metavar="MODEL", required=True, help=f"who writes the questions: {MODEL}")
    add("--reviewer", metavar="MODEL", help="a model that drops trivial, incomplete and unnatural "
        "pairs")  # fmt: skip
    add("--caption", metavar="COLUMN", default="caption", help="default: caption")
    add("--taboo", metavar="FILE", help="words that no pair may have, one a line")
    _shared(command)
    command.set_defaults(command=make)


def _score(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _files(command, "a table of responses")
    for name in ("response", "answer", "question", "caption"):
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    add("--model", metavar="COLUMN", help="who wrote the response; means are by model")
    _shared(command)
    command.set_defaults(command=score)


def _files(command: argparse.ArgumentParser, what: str) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help=f"{what}: JSON lines, CSV, TSV or Parquet, by its ending")
    add("-o", "--output", metavar="OUT", required=True, help="where to")


def _shared(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--entailment", metavar="MODEL", help="a model that sees, which is asked what the picture "
        "shows; needs --image")  # fmt: skip
    add("--tuples", metavar="MODEL", default="graph", help="who reads texts into tuples: graph "
        "(ours, the default) or a model")  # fmt: skip
    add("--encoder", metavar="NAME", default="embedded", help="what compares texts: embedded "
        "(words, the default), a model of sentence-transformers, or module:function")  # fmt: skip
    add("--image", metavar="COLUMN", help="pictures: paths, from here or from the folder of INPUT")
    add("--id", metavar="COLUMN", help="default: rows are counted from 1")
    add("--store", metavar="FILE", help="keeps scene graphs and models' answers for other runs")
    add("--batch", type=int, default=16, metavar="N", help="rows at a time; default: 16")
    add("--overwrite", action="store_true", help="start over: discard what OUT holds")
    add("-q", "--quiet", action="store_true", help="no progress bar and no summary")


def _how(flags: argparse.Namespace) -> How:
    from posh_reward.study.prove.resumed import How

    if flags.batch < 1:
        raise InputError(f"--batch is {flags.batch}: give a number from 1")
    if flags.entailment and not flags.image:
        raise InputError("--entailment looks at pictures: name their column with --image")
    model = getattr(flags, "model", None)
    return How(flags.id, flags.image, model, flags.batch, flags.overwrite, flags.quiet)


def make(flags: argparse.Namespace) -> int:
    """Writes verified questions."""
    from posh_reward.metrics.prove.pipeline import PairMaker
    from posh_reward.study.prove.summary import made_summary
    from posh_reward.study.prove.tables import make_pairs

    how = _how(flags)
    taboo = _words(Path(flags.taboo)) if flags.taboo else []
    maker = PairMaker(
        flags.writer, flags.reviewer, flags.entailment, flags.tuples, encoder=flags.encoder,
        taboo=taboo, store=flags.store,
    )  # fmt: skip
    try:
        rows = make_pairs(maker, flags.input, flags.output, how, flags.caption)
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
    from posh_reward.metrics.prove.metric import Prove
    from posh_reward.study.prove.summary import scored_summary
    from posh_reward.study.prove.tables import SCORED, score_responses

    how = _how(flags)
    prove = Prove(flags.encoder, flags.entailment, flags.tuples, store=flags.store)
    columns = {name: getattr(flags, name) for name in SCORED}
    rows = score_responses(prove, flags.input, flags.output, how, columns)
    if not flags.quiet:
        print(f"{scored_summary(rows)}\n{prove.signature}", file=sys.stderr)
    return UNSCORED if any(row["failure"] for row in rows) else OK
