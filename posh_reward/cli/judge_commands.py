"""``posh-reward judges``: judges compared, and a dataset of a judge's answers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.agreement_flags import count
from posh_reward.cli.flags import INPUTS, add_format, describe, positive, write_text
from posh_reward.errors import InputError, safe

if TYPE_CHECKING:
    from posh_reward.study.judges.judge_runs import JudgeChoice, ScoredPair

JUDGES = "Compares judges, and collects a judge's answers for another to learn from."
COMPARE = """\
Says what a trainer would notice if another judge took the place of the first one: per question,
per pair, and per group of texts with the same reference, which is what GRPO sees. Intervals (95 %)
are over references. A judge is a name or a settings file, as for --judge of `score`, with another
preset behind an @ (vllm@prefix-first); or a file of the metric's settings.

Each judge scores all pairs; then it is put the questions that the search asked under the other, so
that both answer the same ones. The first judge is asked a second time, in another order and other
batches: what it does not agree with itself about, no other judge can be blamed for.

Language models' answers are kept in --store, or else next to the page or the figures
(page.answers.sqlite for page.html). What is there is not asked again, and the same command goes on
after a kill."""


COLLECT = """\
Has a judge answer all that POSH asks about your texts, and writes prompts, label distributions and
rewrites as Parquet, for recipes/distill_judge.py: train, validation and test, no reference in two
of them. The texts are those of the table, each reference itself, and references with mistakes and
omissions of known kind; a table without generations will do (--generation '').

Language models' answers are kept in DIR/answers.sqlite or --store; what is there is not asked
again, and the same command goes on after a kill."""


def add_judges(command: argparse.ArgumentParser) -> None:
    """Add the commands below ``judges``."""
    describe(command, JUDGES)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    each = commands.add_parser("compare", help="say what changes if one replaces another")
    _add_compare(each)
    each = commands.add_parser("collect", help="write a dataset of a judge's answers")
    _add_collect(each)


def _add_compare(command: argparse.ArgumentParser) -> None:
    describe(command, COMPARE)
    add = command.add_argument
    add("judges", metavar="JUDGE[@PRESET]", nargs="+", help="two or more; all are compared with "
        "the first")  # fmt: skip
    _add_texts(command)
    add("-o", "--output", metavar="HTML", help="a page with plots (needs Matplotlib)")
    add("--json", metavar="FILE", help="all figures, for programs")
    add("--no-floor", action="store_true", help="do not ask the first judge twice")
    add("--resamples", type=count, default=1000, metavar="N", help="default: 1000; 0: no intervals")
    command.set_defaults(command=compare)


def _add_collect(command: argparse.ArgumentParser) -> None:
    describe(command, COLLECT)
    add = command.add_argument
    add("judge", metavar="JUDGE[@PRESET]", help="the teacher, as for `judges compare`")
    _add_texts(command)
    add("-o", "--output", metavar="DIR", required=True, help="made if it is not there")
    add("--perturbed", type=count, default=3, metavar="N", help="texts with mistakes for each "
        "reference; default: 3")  # fmt: skip
    add("--seed", type=int, default=0, help="of the mistakes; default: 0")
    command.set_defaults(command=collect)


def _add_texts(command: argparse.ArgumentParser) -> None:
    """Add the table of texts, and how they are read and judged."""
    add = command.add_argument
    add("--texts", metavar="TABLE", required=True, help=f"{INPUTS}, by its ending (.gz too), with "
        "the texts of each row; those with the same reference are siblings")  # fmt: skip
    add("--generation", metavar="COLUMN", default="generation", help="default: generation")
    add("--reference", metavar="COLUMN", default="reference", help="default: reference")
    add_format(command)
    add("--parser", default="embedded", metavar="NAME", help="as for `score`")
    add("--coref", default="rules", metavar="NAME", help="as for `score`")
    add(
        "--store", metavar="FILE", type=Path, help="keeps scene graphs and language models' answers"
    )
    add("--batch", type=positive, default=64, metavar="N", help="pairs at once; default: 64")
    add("-q", "--quiet", action="store_true", help="no progress bars")


def compare(flags: argparse.Namespace) -> int:
    """Compare judges over a table of pairs."""
    from posh_reward.study.judges.judge_report import as_json, judge_report, terminal_text
    from posh_reward.study.judges.judge_runs import RunSettings, judge_choice, run_judges

    choices = list(map(judge_choice, flags.judges))
    outputs = [Path(output) for output in (flags.output, flags.json) if output is not None]
    if flags.output is not None:
        from posh_reward.study.pages.model_plots import require_matplotlib

        require_matplotlib()
    pairs = pairs_of(flags)
    check_outputs(outputs)
    store = flags.store or answers_beside(outputs, choices)
    settings = RunSettings(
        flags.parser, flags.coref, store, flags.batch, not flags.no_floor, flags.quiet
    )
    runs = run_judges(choices, pairs, settings)
    report = judge_report(runs, pairs, resamples=flags.resamples, quiet=flags.quiet)
    write_text(safe(terminal_text(report)))
    if flags.json is not None:
        write_whole(Path(flags.json), json.dumps(as_json(report), indent=2) + "\n")
    if flags.output is not None:
        from posh_reward.study.judges.judge_page import judge_page

        write_whole(Path(flags.output), judge_page(report))
    return INCOMPLETE if any(line.pair_failures for line in report.lines) else OK


def check_outputs(outputs: Sequence[Path]) -> None:
    """Make the folders of files that are to be written, before anything is paid for.

    Raises:
        InputError: one cannot be written there.
    """
    for path in outputs:
        if path.is_dir():
            raise InputError(f"{str(path)!r} is a folder: name a file in it")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(
                f"{str(path)!r} cannot be written ({error.strerror}): name another folder"
            ) from None


def answers_beside(outputs: Sequence[Path], choices: Sequence[JudgeChoice]) -> Path | None:
    """The file that keeps language models' answers if no --store is set; None without any."""
    from posh_reward.metrics.posh.judges.load_judge import engine_settings

    if not any(engine_settings(choice.judge, "judge") for choice in choices):
        return None
    if not outputs:
        print("answers are not kept: with --store, -o or --json the same command could go on",
              file=sys.stderr)  # fmt: skip
        return None
    return outputs[0].with_suffix(".answers.sqlite")


def write_whole(path: Path, text: str) -> None:
    """Write a whole file or nothing."""
    from posh_reward.study.rows.table_writer import whole_file

    with whole_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def collect(flags: argparse.Namespace) -> int:
    """Write a dataset of a judge's answers over a table of texts."""
    from posh_reward.study.judges import question_set
    from posh_reward.study.judges.judge_runs import RunSettings, judge_choice
    from posh_reward.study.rows.tables import require_parquet

    require_parquet()
    settings = RunSettings(flags.parser, flags.coref, flags.store, flags.batch, quiet=flags.quiet)
    rows = [
        (text if _is_text(text) else None, reference)
        for text, reference in _text_rows(flags)
        if _is_text(reference)
    ]
    questions = question_set.collect(
        judge_choice(flags.judge), rows, Path(flags.output), settings,
        perturbations=flags.perturbed, seed=flags.seed,
    )  # fmt: skip
    if not flags.quiet:
        print(safe(question_set.listing(questions)), file=sys.stderr)
    return OK


def pairs_of(flags: argparse.Namespace) -> list[ScoredPair]:
    """The table's pairs, each once; rows without two texts are left out, with a line.

    Raises:
        InputError: the table cannot be read, or has no pair.
    """
    from posh_reward.lexicon.wordnet import is_english
    from posh_reward.study.judges.judge_runs import ScoredPair

    rows = _text_rows(flags)
    pairs = [ScoredPair(*row) for row in rows if all(map(_is_text, row))]
    if len(pairs) < len(rows):
        print(f"{len(rows) - len(pairs)} rows without two texts are left out", file=sys.stderr)
    if not pairs:
        raise InputError(f"{flags.texts!r} has no row with a generation and a reference")
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        print(f"{len(pairs) - len(distinct)} rows repeat a pair and count once", file=sys.stderr)
    if foreign := sum(not is_english(pair.reference) for pair in distinct):
        print(f"{foreign} references do not read like English, which is all that POSH reads",
              file=sys.stderr)  # fmt: skip
    return distinct


def _text_rows(flags: argparse.Namespace) -> list[tuple[Any, ...]]:
    from posh_reward.study.rows.engine import TableSettings, open_items
    from posh_reward.study.rows.table_items import Columns

    texts = {"generation": flags.generation or None, "reference": flags.reference}
    columns = Columns(texts)
    table = TableSettings(columns, flags.format, flags.delimiter)
    with open_items(flags.texts, table) as (items, _):
        return [tuple(item.texts[name] for name in columns.texts) for item in items]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
