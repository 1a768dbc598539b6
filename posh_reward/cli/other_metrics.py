"""``posh-reward harmonic``, ``rubric`` and ``prove``: the other metrics over tables.

They are separate commands because they share few flags with ``posh-reward score``.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, options
from posh_reward.errors import InputError, on_one_line

if TYPE_CHECKING:
    from posh_reward.store import Store
    from posh_reward.tables.standings import ScoreTotals

HARMONIC_HELP = """\
HarmonicEval: five criteria of texts about images and their weighted mean, without references
(docs/other_metrics.md)."""
HARMONIC_SCORE_HELP = """\
Score each text of a table about its image. OUT gets one row per text: id, model (if INPUT has it),
image, generation, overall, correctness, completeness, clarity, fluency and conciseness (1 to 5,
higher is better), failure (kind and detail), criteria (for each its mean, sigma, weight, mass: how
likely the reply was a score at all, and with --why its reason), and signature. If the text or its
image is missing, there is no score, and the row says why.

A killed run resumes with the same command. `posh-reward report` makes a page of OUT."""
RUBRIC_HELP = """\
Points by a rubric: a judge compares texts with references and gives a reason for each of its
points (docs/other_metrics.md)."""
RUBRIC_SCORE_HELP = """\
Judge each text of a table against its reference. OUT gets one row per text: id, model and image (if
INPUT has them), generation, reference, question, total, share (of the points, 0 to 1), the points
of each metric of the rubric (higher is better), failure (kind and detail), repaired (true if the
judge had to be asked twice), metric_points (with the judge's reasons), and signature. If the
text or its reference is missing, there are no points, and the row says why.

A killed run resumes with the same command. `posh-reward report` makes a page of OUT."""
MODEL_FORMS = "a settings file such as configs/judge/server.yaml, or a model's name"
TASK_NAMES = ("captioning", "vqa", "vdu", "reg")


def add_harmonic(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, HARMONIC_HELP)
    score = options.add_subcommand(
        commands, "score", "score texts about images", HARMONIC_SCORE_HELP,
        "harmonic score texts.csv -o scores.jsonl --judge configs/judge/server.yaml",
    )  # fmt: skip
    options.add_files(score)
    add = _add_judge(score)
    columns = options.add_columns(score, "generation")
    columns("--question", metavar="COLUMN", help="column of the questions that the texts answer, "
            "for tasks vqa and vdu (default: question)")  # fmt: skip
    options.add_running(score, "texts")
    add("--gamma", type=float, default=0.75, help="weights of the criteria: 1 for equal, 0.5 for "
        "inverse variance, 0 for the surest criterion alone")  # fmt: skip
    add("--task", choices=TASK_NAMES, default="captioning", help="kind of texts")
    add("--criteria", metavar="NAMES", help="criteria to ask about; for short captions, as in "
        "Table 8, correctness,completeness or correctness,clarity (default: all "
        "five)")  # fmt: skip
    add("--why", action="store_true", help="also ask for the reason of each score: one more reply "
        "per criterion")  # fmt: skip
    score.set_defaults(command=score_harmonic)


def add_rubric(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, RUBRIC_HELP)
    score = options.add_subcommand(
        commands, "score", "judge texts against references", RUBRIC_SCORE_HELP,
        "rubric score texts.csv -o points.jsonl --judge configs/judge/server.yaml",
    )  # fmt: skip
    options.add_files(score)
    add = _add_judge(score)
    add("--rubric", metavar="NAME", default="animals", help="animals, which is the paper's, or a "
        "YAML or JSON file")  # fmt: skip
    columns = options.add_columns(score, "generation", "reference")
    options.add_reference_file(columns)
    columns("--question", metavar="COLUMN", help="column of the questions that the texts answer "
            "(default: the rubric's own question for all)")  # fmt: skip
    options.add_running(score, "texts")
    score.set_defaults(command=score_rubric)


def _add_judge(command: argparse.ArgumentParser) -> options.AddFlag:
    add = command.add_argument
    add("--judge", metavar="MODEL", required=True, help=f"model to ask: {MODEL_FORMS}")
    add("--store", metavar="FILE", help="file that keeps the judge's answers for other runs; "
        "created if missing")  # fmt: skip
    options.add_trust(add)
    return add


def score_harmonic(flags: argparse.Namespace) -> int:
    from posh_reward.other_metrics.harmonic_eval import CRITERIA, HarmonicEval
    from posh_reward.other_metrics.rows import HarmonicRows
    from posh_reward.tables.engine import score_work

    criteria = flags.criteria.split(",") if flags.criteria else CRITERIA
    metric = HarmonicEval(
        flags.judge, flags.gamma, flags.store, criteria=criteria, explain=flags.why
    )
    work = HarmonicRows(metric, flags.task)
    if flags.question and "question" not in work.texts:
        raise InputError(f"task {flags.task} has no questions: leave out --question")
    texts = {name: getattr(flags, name) or name for name in work.texts}
    tally = score_work(work, flags.input, flags.output, options.build_table_settings(flags, texts))
    return _print_summary(flags, tally, work.signature, metric.store)


def score_rubric(flags: argparse.Namespace) -> int:
    from posh_reward.other_metrics.rows import RubricRows
    from posh_reward.other_metrics.rubric_judge import RubricJudge
    from posh_reward.tables.engine import score_work

    judge = RubricJudge(flags.judge, flags.rubric, flags.store)
    if not flags.quiet:  # name the rubric, so that nobody mistakes the default for their own
        rubric = judge.rubric
        metrics = ", ".join(f"{each.name} {each.title}" for each in rubric.metrics)
        line = f"rubric {rubric.name}, {rubric.lowest} to {rubric.highest} points: {metrics}"
        print(fill(on_one_line(line), 90), file=sys.stderr)
    work = RubricRows(judge, questions=flags.question is not None)
    texts = {name: getattr(flags, name) for name in ("generation", "reference", "question")}
    settings = options.build_table_settings(flags, texts)
    tally = score_work(work, flags.input, flags.output, settings)
    options.print_warnings((), settings.references)
    return _print_summary(flags, tally, work.signature, judge.store)


def _print_summary(
    flags: argparse.Namespace, tally: ScoreTotals, signature: str, store: Store | None
) -> int:
    if not flags.quiet:
        print(f"{tally}\n{signature}", file=sys.stderr)
        if store is not None:
            print(store, file=sys.stderr)
    return EXIT_INCOMPLETE if tally.failures else EXIT_OK


PROVE_HELP = """\
PROVE: how helpful and how truthful answers to questions about an image are (docs/prove.md). `make`
has a model write questions from captions and keeps those that a program verifies, `verify` reruns
the programs, `score` scores a model's responses to the questions."""
MAKE_HELP = """\
Make questions with answers from detailed captions. A model writes each with a program, which is run
in a sandbox on the caption's scene graph; pairs that do not verify are dropped. OUT gets the kept
ones: id, caption, image, question, answer, program. OUT.made.jsonl gets all candidates, with the
reasons for dropping. A killed run resumes with the same command."""
VERIFY_HELP = """\
Rerun the programs of question-answer pairs, such as the authors' or edited ones, without a model.
OUT gets one row per pair: id, question, answer, program, caption, value (the program's), dropped
(the reason, empty if the program finds the answer), why, signature."""
PROVE_SCORE_HELP = """\
Score responses: helpfulness is how much of the answer they state, truthfulness how much of what
they state the caption or the image supports; 1 is best. OUT gets one row per response, with every
tuple and its score. A killed run resumes with the same command. `posh-reward report` makes a page
of OUT."""
RESPONSE_TEXTS = ("response", "answer", "question", "caption")
"""Texts of a row of ``prove score``; the flags of the first are ``--generation...``."""
PAIR_TEXTS = ("question", "answer", "program", "caption")


def add_prove(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, PROVE_HELP)
    for name, line, text, example, add in (
        ("make", "write verified questions", MAKE_HELP,
         "captions.csv -o pairs.jsonl --writer configs/judge/server.yaml", _add_make),
        ("verify", "rerun the programs of pairs", VERIFY_HELP, "pairs.jsonl -o checked.csv",
         _add_verify),
        ("score", "score responses", PROVE_SCORE_HELP, "responses.csv -o scores.jsonl", _add_score),
    ):  # fmt: skip
        add(options.add_subcommand(commands, name, line, text, f"prove {name} {example}"))


def _add_make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    options.add_files(command)
    add("--writer", metavar="MODEL", required=True, help="model that writes questions: "
        f"{MODEL_FORMS}")  # fmt: skip
    add("--reviewer", metavar="MODEL", help="model that drops trivial, incomplete and unnatural "
        "pairs")  # fmt: skip
    add("--taboo", metavar="FILE", help="file of words that no pair may contain, one per line")
    columns = options.add_columns(command, "caption")
    _add_graphs(columns, "caption")
    _add_common(command, "captions")
    command.set_defaults(command=make_questions)


def _add_verify(command: argparse.ArgumentParser) -> None:
    options.add_files(command)
    columns = options.add_columns(command, *PAIR_TEXTS)
    _add_graphs(columns, "caption")
    _add_tuples(command.add_argument)
    options.add_running(command, "pairs", 16)
    command.set_defaults(command=verify_prove)


def _add_score(command: argparse.ArgumentParser) -> None:
    options.add_files(command)
    others = RESPONSE_TEXTS[1:]
    columns = options.add_columns(command, *others)
    columns("--generation", metavar="COLUMN", default="response", help="column of the responses")
    _add_graphs(columns, "generation", *others)
    _add_common(command, "responses")
    command.set_defaults(command=score_prove)


def _add_graphs(add: options.AddFlag, *texts: str) -> None:
    for name in texts:
        add(f"--{name}-graph", metavar="COLUMN", help=f"column of scene graphs or tuples to use "
            f"for the {name} (default: the {name} is parsed)")  # fmt: skip


def _select_columns(flags: argparse.Namespace, *texts: str) -> dict[str, str]:
    columns, graphs = {}, {}
    for name in texts:
        flag = "generation" if name == "response" else name
        columns[name] = getattr(flags, flag)
        graphs[f"{name}_graph"] = getattr(flags, f"{flag}_graph", None)
    return {name: column for name, column in (columns | graphs).items() if column is not None}


def _add_common(command: argparse.ArgumentParser, rows: str) -> None:
    add = command.add_argument
    _add_tuples(add)
    add("--entailment-judge", metavar="MODEL", help="model that sees the image and is asked what "
        "it shows")  # fmt: skip
    add("--encoder", metavar="NAME", default="embedded", help="comparison of texts: embedded (by "
        "words), a model of sentence-transformers, or module:function")  # fmt: skip
    options.add_running(command, rows, 16)


def _add_tuples(add: options.AddFlag) -> None:
    add("--tuples", metavar="MODEL", default="graph", help="reader of texts into tuples: graph, "
        "which is our parser, or a model")  # fmt: skip
    add("--store", metavar="FILE", help="file that keeps scene graphs and models' answers for "
        "other runs")  # fmt: skip
    options.add_trust(add)


def make_questions(flags: argparse.Namespace) -> int:
    from posh_reward.other_metrics.prove.pair_maker import PairMaker
    from posh_reward.other_metrics.rows import make_pairs, summarise_candidates

    settings = options.build_table_settings(flags, _select_columns(flags, "caption"))
    taboo = _read_words(Path(flags.taboo)) if flags.taboo else []
    maker = PairMaker(
        flags.writer, flags.reviewer, flags.entailment_judge, flags.tuples, encoder=flags.encoder,
        taboo=taboo, store=flags.store,
    )  # fmt: skip
    with closing(maker):
        rows = make_pairs(maker, flags.input, flags.output, settings)
    if not flags.quiet:
        print(f"{summarise_candidates(rows)}\n{maker.signature}", file=sys.stderr)
    return EXIT_INCOMPLETE if any(row["failure"] for row in rows) else EXIT_OK


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the words of --taboo: {error}") from None


def verify_prove(flags: argparse.Namespace) -> int:
    from posh_reward.other_metrics.prove.pair_maker import PairVerifier
    from posh_reward.other_metrics.rows import verify_pairs

    verifier = PairVerifier(flags.tuples, store=flags.store)
    settings = options.build_table_settings(flags, _select_columns(flags, *PAIR_TEXTS))
    with closing(verifier):
        counts = verify_pairs(verifier, flags.input, flags.output, settings)
    if not flags.quiet:
        print(f"{counts}\n{verifier.signature}", file=sys.stderr)
    return EXIT_INCOMPLETE if counts.failures else EXIT_OK


def score_prove(flags: argparse.Namespace) -> int:
    from posh_reward.other_metrics.prove.prove import Prove
    from posh_reward.other_metrics.rows import score_responses

    texts = _select_columns(flags, *RESPONSE_TEXTS)
    prove = Prove(flags.encoder, flags.entailment_judge, flags.tuples, store=flags.store)
    settings = options.build_table_settings(flags, texts)
    means = score_responses(prove, flags.input, flags.output, settings)
    if not flags.quiet:
        graphs = [name.removesuffix("_graph") for name in texts if name.endswith("_graph")]
        print(f"{means}\n{prove.signature_for(graphs)}", file=sys.stderr)
    return EXIT_INCOMPLETE if means.failures else EXIT_OK
