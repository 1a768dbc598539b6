"""``posh-reward harmonic``, ``rubric`` and ``prove``: POSH's siblings over tables.

Commands of their own: most flags of ``posh-reward score`` (parser, coreference, preset, elements)
mean nothing to them, and theirs mean nothing to POSH.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.flags import (
    add_columns,
    add_files,
    add_running,
    describe,
    table_settings,
)
from posh_reward.errors import InputError, on_one_line

if TYPE_CHECKING:
    from posh_reward.metrics.rubric.rubric import Rubric
    from posh_reward.store import Store
    from posh_reward.study.rows.standings import Tally

HARMONIC = """\
HarmonicEval: five criteria of texts about images, and their weighted mean; no references
(docs/other_metrics.md)."""
HARMONIC_SCORE = """\
Scores each text of a table about its image. Writes one row for each: id, model if there is such a
column, image, generation, overall, correctness, completeness, clarity, fluency, conciseness (1 to
5, higher is better), failure_kind and failure, criteria (each with mean, sigma, weight, mass: how
likely the reply was a score at all, and with --why its reason), signature. A text or an image that
is missing has no score, and its row says why.

Killed at any moment, the same command goes on where it was. `posh-reward report` makes a page of
what it wrote."""
RUBRIC = """\
Points by a rubric: a judge compares texts with references, and gives a reason for each of its
points (docs/other_metrics.md)."""
RUBRIC_SCORE = """\
Judges each text of a table against its reference. Writes one row for each: id, model and image if
there are such columns, generation, reference, question, total, share (of the points, 0 to 1), the
points of each metric of the rubric (higher is better), failure_kind and failure, repaired (whether
the judge had to be asked twice), given (the points with the judge's reasons), signature. A text or
a reference that is missing has no points, and its row says why.

Killed at any moment, the same command goes on where it was. `posh-reward report` makes a page of
what it wrote."""
MODEL = "a settings file such as configs/judge/server.yaml, or the name of a model"
TASKS = ("captioning", "vqa", "vdu", "reg")


def add_harmonic(command: argparse.ArgumentParser) -> None:
    """Add ``harmonic score``."""
    describe(command, HARMONIC)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    score = describe(commands.add_parser("score", help="score texts"), HARMONIC_SCORE)
    add_files(score)
    add_columns(score, "generation", image="which is looked at")
    score.add_argument("--question", metavar="COLUMN", help="what the texts answer, in tasks vqa "
                       "and vdu; default: question")  # fmt: skip
    add_running(score, "texts")
    add = _judge(score)
    add("--gamma", type=float, default=0.75, metavar="N", help="1: criteria count alike; 0.5: by "
        "inverse variance; 0: only the surest; default: 0.75")  # fmt: skip
    add("--task", choices=TASKS, default="captioning", help="what the texts are; default: "
        "captioning")  # fmt: skip
    add("--criteria", metavar="NAMES", help="for short captions, as in the paper's Table 8, "
        "correctness,completeness or correctness,clarity (docs/other_metrics.md); default: all "
        "five")  # fmt: skip
    add("--why", action="store_true", help="also ask for the reason of each score: one more reply "
        "for each criterion")  # fmt: skip
    score.set_defaults(command=score_harmonic)


def add_rubric(command: argparse.ArgumentParser) -> None:
    """Add ``rubric score``."""
    describe(command, RUBRIC)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    score = describe(commands.add_parser("score", help="judge texts"), RUBRIC_SCORE)
    add_files(score)
    add_columns(score, "generation", "reference")
    score.add_argument("--question", metavar="COLUMN", help="what each text answers; default: the "
                       "rubric's own question for all")  # fmt: skip
    add_running(score, "texts")
    add = _judge(score)
    add("--rubric", metavar="NAME", default="animals", help="animals (the paper's, the default), "
        "or a YAML or JSON file")  # fmt: skip
    score.set_defaults(command=score_rubric)


def _judge(command: argparse.ArgumentParser) -> Callable[..., argparse.Action]:
    add = command.add_argument_group("metric").add_argument
    add("--judge", metavar="MODEL", required=True, help=f"who is asked: {MODEL}")
    add("--store", metavar="FILE", help="keeps the judge's answers for other runs; made if it is "
        "not there")  # fmt: skip
    return add


def score_harmonic(flags: argparse.Namespace) -> int:
    """Score texts by HarmonicEval."""
    from posh_reward.metrics.harmonic.criteria import CRITERIA
    from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval
    from posh_reward.study.rows.scorers import HarmonicRows, score_work

    criteria = flags.criteria.split(",") if flags.criteria else CRITERIA
    metric = HarmonicEval(
        flags.judge, flags.gamma, flags.store, criteria=criteria, explain=flags.why
    )
    work = HarmonicRows(metric, flags.task)
    if flags.question and "question" not in work.texts:
        raise InputError(f"task {flags.task} has no questions: leave out --question")
    texts = {name: getattr(flags, name) or name for name in work.texts}
    tally = score_work(work, flags.input, flags.output, table_settings(flags, texts))
    return _summarise(flags, tally, work.signature, metric.store)


def score_rubric(flags: argparse.Namespace) -> int:
    """Judge texts by a rubric."""
    from posh_reward.metrics.rubric.rubric_judge import RubricJudge
    from posh_reward.study.rows.scorers import RubricRows, score_work

    judge = RubricJudge(flags.judge, flags.rubric, flags.store)
    if not flags.quiet:
        print(_rubric_line(judge.rubric), file=sys.stderr)
    work = RubricRows(judge, questions=flags.question is not None)
    texts = {name: getattr(flags, name) for name in ("generation", "reference", "question")}
    tally = score_work(work, flags.input, flags.output, table_settings(flags, texts))
    return _summarise(flags, tally, work.signature, judge.store)


def _rubric_line(rubric: Rubric) -> str:
    """Name the rubric, so that nobody takes the default for their own."""
    metrics = ", ".join(f"{each.name} {each.title}" for each in rubric.metrics)
    line = on_one_line(
        f"rubric {rubric.name}, {rubric.lowest} to {rubric.highest} points: {metrics}"
    )
    return fill(line, 90)


def _summarise(flags: argparse.Namespace, tally: Tally, signature: str, store: Store | None) -> int:
    if not flags.quiet:
        print(f"{tally}\n{signature}", file=sys.stderr)
        if store is not None:
            print(store, file=sys.stderr)
    return INCOMPLETE if tally.failures else OK


PROVE = """\
PROVE: how helpful answers to questions about an image are, and how truthful (docs/prove.md).
`make` has a model write questions from captions and keeps those that a program verifies, `verify`
runs the programs of such pairs again, `score` scores what a model under test replied to them."""
MAKE = """\
Makes questions with answers from detailed captions. A model writes them, each with a program that
is run, confined, over the caption's scene graph; what does not verify is dropped. OUT has the kept
ones: id, caption, image, question, answer, program. OUT.made.jsonl has all candidates with the
reasons why they were dropped. Killed at any moment, the same command goes on where it was."""
VERIFY = """\
Runs the programs of question-answer pairs again, such as the authors' or edited ones, and asks no
model. OUT has one row for each pair: id, question, answer, program, caption, value (the program's),
dropped (the reason, empty if the program finds the answer), why, signature."""
PROVE_SCORE = """\
Scores responses: how much of the answer they say (helpfulness), and how much of what they say the
caption, or the image, bears out (truthfulness); 1 is best. OUT has one row for each, with every
tuple and its score. Killed at any moment, the same command goes on where it was. `posh-reward
report` makes a page of what it wrote."""
RESPONSE_TEXTS = ("response", "answer", "question", "caption")
PAIR_TEXTS = ("question", "answer", "program", "caption")


def add_prove(command: argparse.ArgumentParser) -> None:
    """Add ``prove make``, ``prove verify`` and ``prove score``."""
    describe(command, PROVE)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    _add_make(describe(commands.add_parser("make", help="write verified questions"), MAKE))
    _add_verify(describe(commands.add_parser("verify", help="run pairs' programs again"), VERIFY))
    _add_score(describe(commands.add_parser("score", help="score responses"), PROVE_SCORE))


def _add_make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add_files(command)
    add_columns(command, "caption", image="which the judge of entailment looks at")
    add("--writer", metavar="MODEL", required=True, help=f"who writes the questions: {MODEL}")
    add("--reviewer", metavar="MODEL", help="a model that drops trivial, incomplete and unnatural "
        "pairs")  # fmt: skip
    add("--taboo", metavar="FILE", help="words that no pair may have, one a line")
    _graphs(command, "caption")
    _add_common(command, "captions")
    command.set_defaults(command=make_questions)


def _add_verify(command: argparse.ArgumentParser) -> None:
    add_files(command)
    add_columns(command, *PAIR_TEXTS)
    _graphs(command, "caption")
    _tuples(command)
    add_running(command, "pairs", 16)
    command.set_defaults(command=verify_prove)


def _add_score(command: argparse.ArgumentParser) -> None:
    add_files(command)
    add_columns(command, *RESPONSE_TEXTS, image="which the judge of entailment looks at")
    _graphs(command, *RESPONSE_TEXTS)
    command.add_argument("--by-type", action="store_true", help="also print means by type of "
                         "question, such as where is, of the ten most frequent")  # fmt: skip
    _add_common(command, "responses")
    command.set_defaults(command=score_prove)


def _graphs(command: argparse.ArgumentParser, *texts: str) -> None:
    for name in texts:
        command.add_argument(f"--{name}-graph", metavar="COLUMN", help="scene graphs or tuples "
                             f"that stand for the {name}, such as the authors'; default: the "
                             f"{name} is read")  # fmt: skip


def _columns(flags: argparse.Namespace, *texts: str) -> dict[str, str]:
    names = {name: getattr(flags, name) for name in texts}
    graphs = {f"{name}_graph": getattr(flags, f"{name}_graph", None) for name in texts}
    return names | {name: column for name, column in graphs.items() if column is not None}


def _add_common(command: argparse.ArgumentParser, rows: str) -> None:
    add = command.add_argument
    add("--entailment", metavar="MODEL", help="a model that sees, which is asked what the image "
        "shows")  # fmt: skip
    _tuples(command)
    add("--encoder", metavar="NAME", default="embedded", help="what compares texts: embedded "
        "(words, the default), a model of sentence-transformers, or module:function")  # fmt: skip
    add_running(command, rows, 16)


def _tuples(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--tuples", metavar="MODEL", default="graph", help="who reads texts into tuples: graph "
        "(ours, the default) or a model")  # fmt: skip
    add("--store", metavar="FILE", help="keeps scene graphs and models' answers for other runs")


def make_questions(flags: argparse.Namespace) -> int:
    """Write verified questions."""
    from posh_reward.metrics.prove.pair_maker import PairMaker
    from posh_reward.study.rows.prove_rows import candidates_summary, make_pairs

    settings = table_settings(flags, _columns(flags, "caption"))
    taboo = _words(Path(flags.taboo)) if flags.taboo else []
    maker = PairMaker(
        flags.writer, flags.reviewer, flags.entailment, flags.tuples, encoder=flags.encoder,
        taboo=taboo, store=flags.store,
    )  # fmt: skip
    with closing(maker):
        rows = make_pairs(maker, flags.input, flags.output, settings)
    if not flags.quiet:
        print(f"{candidates_summary(rows)}\n{maker.signature}", file=sys.stderr)
    return INCOMPLETE if any(row["failure"] for row in rows) else OK


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the words of --taboo: {error}") from None


def verify_prove(flags: argparse.Namespace) -> int:
    """Verify pairs by their programs."""
    from posh_reward.metrics.prove.pair_maker import PairVerifier
    from posh_reward.study.rows.prove_rows import verify_pairs

    verifier = PairVerifier(flags.tuples, store=flags.store)
    settings = table_settings(flags, _columns(flags, *PAIR_TEXTS))
    with closing(verifier):
        counts = verify_pairs(verifier, flags.input, flags.output, settings)
    if not flags.quiet:
        print(f"{counts}\n{verifier.signature}", file=sys.stderr)
    return INCOMPLETE if counts.failures else OK


def score_prove(flags: argparse.Namespace) -> int:
    """Score responses."""
    from posh_reward.metrics.prove.prove import Prove
    from posh_reward.study.rows.prove_rows import score_responses

    texts = _columns(flags, *RESPONSE_TEXTS)
    prove = Prove(flags.encoder, flags.entailment, flags.tuples, store=flags.store)
    settings = table_settings(flags, texts)
    means = score_responses(prove, flags.input, flags.output, settings, types=flags.by_type)
    if not flags.quiet:
        graphs = [name.removesuffix("_graph") for name in texts if name.endswith("_graph")]
        print(f"{means}\n{prove.signature_for(graphs)}", file=sys.stderr)
    return INCOMPLETE if means.failures else OK
