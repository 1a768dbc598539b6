"""``posh-reward attack``: audit a reward before a policy does."""

from __future__ import annotations

import argparse
import io
import math
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from posh_reward.attack.grammars import GRAMMARS
from posh_reward.cli import OK, options
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.attack.audit import Ledger

ATTACK = """\
Audit a reward before training on it, and after each change of judge or rules (docs/audit.md): what
passes though false, and what fails though honest, each held against true texts of the same rows.

The first half: texts found by climbs that never see the image, alone and behind the first half of a
true text; true texts made false by kind; labels of prompts. The second half: the same text in
other formats, simpler sentences, lengths and words. Writes finds.md, finds.html and journals, from
which a killed run resumes with the same command, to DIR."""
FOUND = 1
STATUS = "Its exit status is 0 if nothing was found, and 1 if something was."
METRICS = ("posh", "harmonic", "rubric")
STOCK_ROWS = 500
"""Most rows that the vocabulary is collected from: more would be parsed in vain."""


def add_attack(command: argparse.ArgumentParser) -> None:
    example = "attack rows.jsonl -o audit --reference caption --reward my_rewards:brevity"
    options.describe(command, f"{ATTACK}\n\n{STATUS}", example)
    add = command.add_argument
    add("input", metavar="INPUT", help="table with a column of true texts, or a dataset's name")
    add("--split", default="test", help="split of a dataset")
    add("--reward", metavar="WHICH", help="settings file of the reward, or MODULE:FUNCTION for one "
        "of your own, called as TRL calls it (default: POSH)")  # fmt: skip
    add("--reward-metric", choices=METRICS, default="posh", help="metric of the settings file")
    add("--reference", metavar="COLUMN", help="column of true texts (default: the reward's own)")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--rows", type=options.positive, default=12, help="rows that all texts are finally paid on")
    add("--budget", type=options.positive, default=80, help="texts that each climb tries")
    add("--grammars", nargs="+", default=list(GRAMMARS), choices=GRAMMARS, metavar="NAME",
        help=f"grammars to climb in (default: all, which are {', '.join(GRAMMARS)})")  # fmt: skip
    add(
        "--search-rows",
        type=options.positive,
        default=4,
        metavar="ROWS",
        help="rows that climbs are paid on",
    )
    add("--seed", type=int, default=0, help="seed of all random choices")
    options.add_trust(add)
    command.set_defaults(command=attack_reward)


def attack_reward(flags: argparse.Namespace) -> int:
    from posh_reward.attack import audit
    from posh_reward.attack.audit import open_reward
    from posh_reward.attack.climb import Target, attack
    from posh_reward.attack.falsehoods import reader
    from posh_reward.attack.grammars import WordStock
    from posh_reward.process.progress import progress_bar
    from posh_reward.study.rows.journal import Journal
    from posh_reward.types import Description

    reward = open_reward(flags.reward, flags.reward_metric, flags.reference)
    rows = read_references(flags.input, flags.split, reward.column)
    random.Random(flags.seed).shuffle(rows)
    search, unseen = rows[: flags.search_rows], rows[flags.search_rows :][: flags.rows]
    if len(unseen) < 3:
        raise InputError(
            f"{flags.input} has {len(rows)} rows: use 3 more than --search-rows "
            f"({flags.search_rows}) at least, since finds are paid on other rows"
        )
    near, target = (Target(reward.functions, some, reward.column)
                    for some in (with_images(search), with_images(unseen)))  # fmt: skip
    texts = audit.Texts.of(target)
    # The name keeps journals of other rows, or of another reward, from being resumed.
    mine = [near.true_text(row) for row in range(len(search))]
    which = sha256(repr((reward.signature, flags.seed, mine, texts)).encode()).hexdigest()[:8]
    flags.output.mkdir(parents=True, exist_ok=True)
    climbs = 2 * len(flags.grammars) * flags.budget
    with closing(Journal(flags.output / f"paid-{which}.jsonl", audit.BEGINS)) as journal:
        ledger = audit.Ledger(target, journal)
        yardsticks = [each for some in texts.honest.values() for each in enumerate(some)]
        cost = timed(ledger, yardsticks, reward.requests)
        floor = audit.floor_of(texts, ledger)
        others = [*search, *rows[flags.search_rows + flags.rows :]][:STOCK_ROWS]
        own = Target((), others, reward.column)
        parsed = reader().read([own.true_text(row) for row in range(len(others))])
        stock = WordStock.of(each for each in parsed if isinstance(each, Description))
        checks = audit.possible(
            [
                *audit.falsehoods(texts, flags.seed),
                *audit.edits(texts, flags.seed),
                *audit.honest(texts, audit.falsified(texts, flags.seed)),
            ]
        )
        fixed = audit.texts_of(checks)
        print(estimate(len(ledger.unpaid(fixed)), climbs, len(search), *cost), file=sys.stderr)
        with progress_bar("audit", len(ledger.unpaid(fixed)) + climbs, "text") as bar:
            ledger.progress = bar.update
            ledger.pay(fixed)
            finds = attack(near, stock, flags.output / f"journal-{which}.jsonl",
                           grammars=flags.grammars, budget=flags.budget, seed=flags.seed,
                           progress=bar.update)  # fmt: skip
            found = audit.climbed(finds, target, stock, texts)
            bar.total = bar.n + len(ledger.unpaid(audit.texts_of(found)))
            ledger.pay(audit.texts_of(found))
    findings = [audit.judge(check, ledger, floor) for check in [*found, *checks]]
    means = {
        name: fmean(paid for each in enumerate(some) if not math.isnan(paid := ledger[each]))
        for name, some in texts.honest.items()
    }
    footer = [f"{flags.budget} texts for each climb, {len(unseen)} rows", reward.signature]
    options.write_file(flags.output / "finds.md", f"{audit.table(means, findings)}\n".encode())
    options.write_file(flags.output / "finds.html", audit.page(means, findings, footer).encode())
    options.write_text(audit.table(means, findings))
    return FOUND if any(each.verdict == "found" for each in findings) else OK


def timed(
    ledger: Ledger, texts: list[tuple[int, str]], requests: Callable[[], int] | None
) -> tuple[float | None, float | None]:
    """Score first texts; return the seconds and questions of each, None if they are not known."""
    rest = ledger.unpaid(texts)
    print(f"timing the reward on {len(rest)} texts", file=sys.stderr)
    ledger.pay(rest[:1])  # loads what the reward needs, which is no part of a text's time
    begun, asked = time.perf_counter(), requests() if requests else 0
    ledger.pay(rest[1:])
    if len(rest) < 2:
        return None, None
    seconds, asked = time.perf_counter() - begun, (requests() if requests else 0) - asked
    return seconds / (len(rest) - 1), asked / (len(rest) - 1)


def estimate(
    fixed: int, climbs: int, rows: int, seconds: float | None, requests: float | None
) -> str:
    """Say what is left to do; climbs drop most texts before the last row, so it is a bound."""
    most = fixed + climbs * rows
    parts = [f"{fixed:,} texts left, and {climbs:,} in climbs, each on up to {rows} rows"]
    if seconds is not None:
        least, longest = (math.ceil(n * seconds / 60) for n in (fixed + climbs, most))
        parts.append(f"{least:,} to {longest:,} minutes")
    if requests:
        parts.append(f"{(fixed + climbs) * requests:,.0f} to {most * requests:,.0f} questions")
    return "; ".join(parts)


def with_images(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decode images that a dataset has as the bytes of files, as TRL passes them."""
    return [{name: _decoded(value) for name, value in row.items()} for row in rows]


def _decoded(value: object) -> object:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not (isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes)):
        return value
    from PIL import Image

    return Image.open(io.BytesIO(value["bytes"]))


def read_references(name: str, split: str, column: str) -> list[dict[str, Any]]:
    """Read the rows that have a true text, or a list of them, in a column of a table or dataset."""
    from posh_reward.datasets.load_dataset import is_drawn, load_images
    from posh_reward.study.agreement.judgment_files import read_rows

    drawn = is_drawn(name)
    usable = []
    for row in load_images(name, split) if drawn else read_rows(name, split=split, images=True):
        texts = row.get(column)
        several = texts if isinstance(texts, list) else [texts]
        if several and all(isinstance(text, str) and text.strip() for text in several):
            usable.append(row)
    if not usable:
        raise InputError(f"no row of {name} has a text in the column {column}")
    return usable
