"""``posh-reward judges``: compare judges, or write a dataset of a judge's answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, options
from posh_reward.errors import InputError, escape_controls

if TYPE_CHECKING:
    from posh_reward.distill.judge_runs import JudgeChoice, ScoredPair

JUDGES_HELP = "Compare judges, or collect a judge's answers for another to learn from."
COMPARE_HELP = """\
Report what a trainer would notice if another judge replaced the first one: per question, per pair,
and per group of texts with the same reference, which is what GRPO sees. Intervals (95 %) are over
references. A judge is a name or a settings file, as for --judge of `score`, with a preset after an
@ (vllm@prefix-first) if not the default one; or a file of the metric's settings.

Each judge scores all pairs, then answers the questions that came up under the others, so that all
answer the same ones. The first judge is asked a second time, in another order and other batches:
where it disagrees with itself, no other judge is to blame.

Language models' answers are kept in --store, or else next to the figures
(figures.answers.sqlite for figures.json), so a killed run resumes with the same command."""
COLLECT_HELP = """\
Have a judge answer everything that POSH asks about your texts, and write prompts, label
distributions and rewrites as Parquet for recipes/distill_judge.py: train, validation and test,
which share no reference. The texts are the table's, each reference itself, and references with
mistakes and omissions of known kinds. A table without generations will do (--generation '').

Language models' answers are kept in DIR/answers.sqlite or --store, so a killed run resumes with the
same command."""


def add_judges(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, JUDGES_HELP)
    _add_compare(commands.add_parser("compare", help="report what changes with another judge"))
    _add_collect(commands.add_parser("collect", help="write a dataset of a judge's answers"))


def _add_compare(command: argparse.ArgumentParser) -> None:
    options.describe_command(
        command, COMPARE_HELP, "judges compare pairs.csv --judges embedded vllm --json figures.json"
    )
    add = command.add_argument
    _add_input(command)
    add("--judges", metavar="JUDGE[@PRESET]", nargs="+", required=True, help="two judges or more, "
        "compared with the first")  # fmt: skip
    options.add_reports(command, page=False)
    add = _add_metric(command)
    add("--no-floor", action="store_true", help="do not ask the first judge twice")
    add("--resamples", type=options.count, default=1000, help="resamples of references; 0: none")
    command.set_defaults(command=compare_judges)


def _add_collect(command: argparse.ArgumentParser) -> None:
    options.describe_command(
        command, COLLECT_HELP, "judges collect pairs.csv --judge vllm -o runs/answers"
    )
    add = command.add_argument
    _add_input(command)
    add("--judge", metavar="JUDGE[@PRESET]", required=True, help="the teacher, as for `judges "
        "compare`")  # fmt: skip
    add("-o", "--output", metavar="DIR", required=True, help="folder to write; created if missing")
    add = _add_metric(command)
    add("--perturbed", type=options.count, default=3, help="texts with mistakes per reference")
    add("--seed", type=int, default=0, help="seed of the mistakes")
    command.set_defaults(command=collect_answers)


def _add_input(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help=f"table of texts: {options.INPUT_FORMATS}; "
                         "rows with the same reference form a group")  # fmt: skip


def _add_metric(command: argparse.ArgumentParser) -> options.AddFlag:
    command.add_argument("--store", metavar="FILE", type=Path, help="file that keeps scene graphs "
                         "and language models' answers")  # fmt: skip
    options.add_reading(command, "generation", "reference")
    add = command.add_argument_group("metric and running").add_argument
    add("--parser", default="embedded", metavar="NAME", help="parser, as for `score`")
    add("--coref", default="rules", metavar="NAME", help="coreference resolver, as for `score`")
    options.add_trust(add)
    add("--batch", type=options.positive, default=64, help="pairs to score at a time")
    add("-q", "--quiet", action="store_true", help="print no progress bars")
    return add


def compare_judges(flags: argparse.Namespace) -> int:
    from posh_reward.distill.judge_report import as_json, judge_report, terminal_text
    from posh_reward.distill.judge_runs import RunSettings, judge_choice, run_judges
    from posh_reward.tables.tables import check_apart

    choices = list(map(judge_choice, flags.judges))
    figures = None if flags.json in (None, "-") else Path(flags.json)
    if figures is not None:
        check_apart(flags.input, str(figures))
    options.check_replaceable(flags.json, options.FIGURES_START)
    pairs = read_pairs(flags)
    if figures is not None:  # before anything is paid for
        if figures.is_dir():
            raise InputError(f"{str(figures)!r} is a folder: choose a file in it")
        figures.parent.mkdir(parents=True, exist_ok=True)
    store = flags.store or answers_beside(figures, choices)
    settings = RunSettings(
        flags.parser, flags.coref, store, flags.batch, not flags.no_floor, flags.quiet
    )
    runs = run_judges(choices, pairs, settings)
    report = judge_report(runs, pairs, resamples=flags.resamples, quiet=flags.quiet)
    options.show_figures(flags, as_json(report), escape_controls(terminal_text(report)))
    return EXIT_INCOMPLETE if any(line.pair_failures for line in report.lines) else EXIT_OK


def answers_beside(figures: Path | None, choices: Sequence[JudgeChoice]) -> Path | None:
    """Choose a file for language models' answers if there is no --store; None without any."""
    from posh_reward.posh.load_judge import engine_settings

    if not any(engine_settings(choice.judge, "judge") for choice in choices):
        return None
    if figures is None:
        print("answers are not kept: add --store or --json to resume", file=sys.stderr)
        return None
    return figures.with_suffix(".answers.sqlite")


def collect_answers(flags: argparse.Namespace) -> int:
    from posh_reward.distill import question_set
    from posh_reward.distill.judge_runs import RunSettings, judge_choice
    from posh_reward.tables.tables import require_parquet

    require_parquet()
    settings = RunSettings(flags.parser, flags.coref, flags.store, flags.batch, quiet=flags.quiet)
    rows: list[tuple[str | None, str]] = []
    for text, reference in _read_text_rows(flags):
        if _is_text(reference):
            rows.append((text if _is_text(text) else None, reference))
    questions = question_set.collect_answers(
        judge_choice(flags.judge), rows, Path(flags.output), settings,
        perturbations=flags.perturbed, seed=flags.seed,
    )  # fmt: skip
    if not flags.quiet:
        print(escape_controls(question_set.describe_summary(questions)), file=sys.stderr)
    return EXIT_OK


def read_pairs(flags: argparse.Namespace) -> list[ScoredPair]:
    """Read the table's distinct pairs; print how many rows are left out."""
    from posh_reward.distill.judge_runs import ScoredPair
    from posh_reward.embedded.english.wordnet import is_english

    rows = _read_text_rows(flags)
    pairs = [ScoredPair(*row) for row in rows if all(map(_is_text, row))]
    if len(pairs) < len(rows):
        print(f"left out {len(rows) - len(pairs)} rows without two texts", file=sys.stderr)
    if not pairs:
        raise InputError(f"{flags.input!r} has no row with a generation and a reference")
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        print(f"left out {len(pairs) - len(distinct)} rows that repeat a pair", file=sys.stderr)
    for side in ("generation", "reference"):
        if foreign := sum(not is_english(getattr(pair, side)) for pair in distinct):
            words = f"{foreign} {side}s do not look English: POSH reads nothing else"
            print(words, file=sys.stderr)
    return distinct


def _read_text_rows(flags: argparse.Namespace) -> list[tuple[Any, ...]]:
    from posh_reward.metrics.metric import read_reference
    from posh_reward.tables.engine import Columns, TableSettings, open_items

    texts = {"generation": flags.generation or None, "reference": flags.reference}
    columns = Columns(texts, numbered=True)  # a question's row is known by its texts
    table = TableSettings(columns, format=flags.format, delimiter=flags.delimiter)
    rows = []
    with open_items(flags.input, table) as (items, _):
        for item in items:
            rows.append(tuple(read_reference(item.texts[name]) for name in texts))
    return rows


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
