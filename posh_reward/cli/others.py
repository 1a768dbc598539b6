"""``posh-reward harmonic`` and ``posh-reward rubric``: POSH's siblings over tables.

Commands of their own, as ``prove`` is: most flags of ``posh-reward score`` (parser, coreference,
preset, elements) mean nothing to them, and theirs mean nothing to POSH.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from posh_reward.cli import tables
from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.store import Store
    from posh_reward.study.rows.standings import Tally

HARMONIC = """\
HarmonicEval: five criteria of texts about images, and their weighted mean; no references
(docs/other_metrics.md)."""
HARMONIC_SCORE = """\
Scores each text of a table about its image. Writes one row for each: id, model if there is such a
column, image, generation, overall, correctness, completeness, clarity, fluency, conciseness (1 to
5, higher is better), failure_kind and failure, criteria (each with its mean, sigma and weight),
signature. A text or an image that is missing has no score, and its row says why.

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
JUDGE = "a settings file such as configs/judge/server.yaml, or the name of a model"
TASKS = ("captioning", "vqa", "vdu", "reg")
Describe = Callable[[argparse.ArgumentParser, str], argparse.ArgumentParser]


def add_harmonic(command: argparse.ArgumentParser, described: Describe) -> None:
    """Adds ``harmonic score``."""
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    score = described(chosen.add_parser("score", help="score texts"), HARMONIC_SCORE)
    tables.add_files(score)
    tables.add_columns(score, "generation", image="which is looked at")
    score.add_argument("--question", metavar="COLUMN", help="what the texts answer, in tasks vqa "
                       "and vdu; default: question")  # fmt: skip
    tables.add_running(score, "texts")
    add = _judge(score)
    add("--gamma", type=float, default=0.75, metavar="N", help="1: criteria count alike; 0.5: by "
        "inverse variance; 0: only the surest; default: 0.75")  # fmt: skip
    add("--task", choices=TASKS, default="captioning", help="what the texts are; default: "
        "captioning")  # fmt: skip
    add("--criteria", metavar="NAMES", help="correctness,completeness asks what the paper asks of "
        "short captions; default: all five")  # fmt: skip
    score.set_defaults(command=score_harmonic)


def add_rubric(command: argparse.ArgumentParser, described: Describe) -> None:
    """Adds ``rubric score``."""
    chosen = command.add_subparsers(required=True, metavar="COMMAND")
    score = described(chosen.add_parser("score", help="judge texts"), RUBRIC_SCORE)
    tables.add_files(score)
    tables.add_columns(score, "generation", "reference")
    score.add_argument("--question", metavar="COLUMN", help="what each text answers; default: the "
                       "rubric's own question for all")  # fmt: skip
    tables.add_running(score, "texts")
    add = _judge(score)
    add("--rubric", metavar="NAME", default="animals", help="animals (the paper's, the default), "
        "or a YAML or JSON file")  # fmt: skip
    score.set_defaults(command=score_rubric)


def _judge(command: argparse.ArgumentParser) -> Callable[..., argparse.Action]:
    add = command.add_argument_group("metric").add_argument
    add("--judge", metavar="MODEL", required=True, help=f"who is asked: {JUDGE}")
    add("--store", metavar="FILE", help="keeps the judge's answers for other runs; made if it is "
        "not there")  # fmt: skip
    return add


def score_harmonic(flags: argparse.Namespace) -> int:
    """Scores texts by HarmonicEval."""
    from posh_reward.metrics.harmonic.criteria import CRITERIA
    from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval
    from posh_reward.study.rows.scorers import HarmonicRows, score_others

    criteria = flags.criteria.split(",") if flags.criteria else CRITERIA
    metric = HarmonicEval(flags.judge, flags.gamma, flags.store, criteria=criteria)
    work = HarmonicRows(metric, flags.task)
    if flags.question and "question" not in work.texts:
        raise InputError(f"task {flags.task} has no questions: leave out --question")
    texts = {name: getattr(flags, name) or name for name in work.texts}
    tally = score_others(work, flags.input, flags.output, tables.how_of(flags, texts))
    return _said(flags, tally, work.signature, metric.store)


def score_rubric(flags: argparse.Namespace) -> int:
    """Judges texts by a rubric."""
    from posh_reward.metrics.rubric.rubric_judge import RubricJudge
    from posh_reward.study.rows.scorers import RubricRows, score_others

    judge = RubricJudge(flags.judge, flags.rubric, flags.store)
    work = RubricRows(judge, questions=flags.question is not None)
    texts = {name: getattr(flags, name) for name in ("generation", "reference", "question")}
    tally = score_others(work, flags.input, flags.output, tables.how_of(flags, texts))
    return _said(flags, tally, work.signature, judge.store)


def _said(flags: argparse.Namespace, tally: Tally, signature: str, store: Store | None) -> int:
    """Prints the summary; returns the exit status."""
    if not flags.quiet:
        print(f"{tally}\n{signature}", file=sys.stderr)
        if store is not None:
            print(store, file=sys.stderr)
    return UNSCORED if tally.failures else OK
