"""What each command does. Each takes the parsed flags and returns an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from posh_reward.cli.exits import OK, UNSCORED
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.metric.posh import PoSh
    from posh_reward.study.scoring import Pair, Sink, Tally


def score(flags: argparse.Namespace) -> int:
    """Scores every pair of a table."""
    from posh_reward.cli.config import metric
    from posh_reward.cli.files import check_apart, output_format, sink, table
    from posh_reward.study.scoring import Columns, pairs_of
    from posh_reward.study.tables import write_table

    posh = metric(flags)
    kind = output_format(flags.output)
    check_apart(flags.input, flags.output)
    columns = Columns(flags.generation, flags.reference, flags.id)
    with table(flags.input, flags.format) as rows:
        pairs = pairs_of(rows, flags.input, columns)
    with sink(flags.output, kind, flags.overwrite) as rows_out:
        tally = _score_into(rows_out, posh, pairs, flags)
        if kind != "jsonl":
            write_table(rows_out.rows(), Path(flags.output), kind)
            rows_out.discard()
    if not flags.quiet:
        print(f"{tally}\n{posh.signature}", file=sys.stderr)
        if posh.store is not None:
            print(posh.store, file=sys.stderr)
    return UNSCORED if tally.failures else OK


def _score_into(sink: Sink, posh: PoSh, pairs: list[Pair], flags: argparse.Namespace) -> Tally:
    """Scores what ``sink`` does not hold yet; counts that and what it held."""
    from tqdm import tqdm

    from posh_reward.study.scoring import Tally, check_done, score_pairs

    tally = Tally()
    for row in check_done(sink.rows(), pairs, flags.output, posh.signature, flags.elements):
        tally.add(row)
    done = tally.rows
    if done and not flags.quiet:
        print(f"{done:,} of {len(pairs):,} pairs were scored before", file=sys.stderr)
    batches = score_pairs(posh, pairs[done:], batch=flags.batch, elements=flags.elements)
    with tqdm(desc="POSH", unit="pair", total=len(pairs), initial=done, disable=flags.quiet) as bar:
        for rows in batches:
            sink.append(rows)
            for row in rows:
                tally.add(row)
            bar.update(len(rows))
    return tally


def explain(flags: argparse.Namespace) -> int:
    """Shows one pair with its mistakes and omissions marked."""
    from posh_reward.cli.config import metric
    from posh_reward.cli.files import text
    from posh_reward.study import terminal

    if flags.generation == flags.reference == "@-":
        raise InputError("only one of the two texts can come from standard input")
    posh = metric(flags)
    scores = posh.score([text(flags.generation)], [text(flags.reference)])[0]
    width = min(get_terminal_size().columns, 100)
    shown = terminal.explain(scores, color=_color(flags.color), width=width, worst=flags.worst)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(shown.encode(encoding, "replace").decode(encoding) + "\n")
    return OK if scores.failure is None else UNSCORED


def _color(choice: str) -> bool:
    """Whether to write colours: ``auto`` does on a terminal that takes them (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def report(flags: argparse.Namespace) -> int:
    """Writes a page about scored rows."""
    from tqdm import tqdm

    from posh_reward.cli.files import STANDARD, check_apart, table
    from posh_reward.study.report import report
    from posh_reward.study.scoring import typed

    check_apart(flags.scores, flags.output)
    with (
        table(flags.scores, flags.format) as rows,
        tqdm(rows, desc="report", unit="pair") as counted,
    ):
        page = report(map(typed, counted), flags.title).encode("utf-8")
    if flags.output == STANDARD:
        sys.stdout.buffer.write(page)
        return OK
    path = Path(flags.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page)
    print(f"wrote {path} ({len(page) / 1e6:.1f} MB)", file=sys.stderr)
    return OK
