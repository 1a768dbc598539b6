"""``posh-reward attack``: search for texts that a reward pays without their being true."""

from __future__ import annotations

import argparse
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

from posh_reward.attack.grammars import GRAMMARS
from posh_reward.cli import OK
from posh_reward.cli.flags import describe, positive, write_text
from posh_reward.errors import InputError

ATTACK = """\
Searches for texts that a reward pays without their being true of the image. Try it before you train
with a judge of your own, and after each change of judge or rules (docs/rewards.md).

Grammars write blindly, alone and behind the first half of a reference (without that row's words); a
true text is edited, its words are joined by single characters, and labels of the prompts are
written behind it. The search is paid on a few rows, against the first half of their references,
which takes half the time; the table is paid on others, in full. Broken off, the same command goes
on. Writes OUTPUT/finds.md, finds.html and a journal."""
UNSEEN = 12
"""Rows, at most, that finds are paid for in the end."""


def add_attack(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``attack``."""
    describe(command, ATTACK)
    add = command.add_argument
    add("data", help="a table with the column reference, or a dataset's name")
    add("--split", default="test", help="of a dataset; default: test")
    add("--reward", type=Path, metavar="YAML", help="settings of the reward: its metric and "
        "shaping (docs/rewards.md)")  # fmt: skip
    add("-o", "--output", type=Path, required=True, metavar="DIR")
    add("--grammars", nargs="+", default=list(GRAMMARS), choices=GRAMMARS, metavar="NAME",
        help=f"default: all, which are {', '.join(GRAMMARS)}")  # fmt: skip
    add("--budget", type=positive, default=2000, metavar="N", help="texts of each climb; "
        "default: 2000")  # fmt: skip
    add("--search", type=positive, default=4, metavar="ROWS", help="of the search; default: 4")
    add("--seed", type=int, default=0)
    command.set_defaults(command=attack_reward)


def attack_reward(flags: argparse.Namespace) -> int:
    """Search, measure and write."""
    from posh_reward.attack.climb import Target, attack, half
    from posh_reward.attack.finds import climbed, edited, honest, joined, labelled, page, table
    from posh_reward.attack.grammars import WordStock
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.reward.instance import make_reward
    from posh_reward.settings import check_settings, read_settings
    from posh_reward.types import Description

    rows = read_references(flags.data, flags.split)
    random.Random(flags.seed).shuffle(rows)
    search, unseen = rows[: flags.search], rows[flags.search :][:UNSEEN]
    if not unseen:
        raise InputError(f"{flags.data} has {len(rows)} rows: give more than --search, here "
                         f"{flags.search}, so that finds can be paid for others")  # fmt: skip
    settings = read_settings(flags.reward) if flags.reward else {}
    reward = make_reward(**check_settings(make_reward, settings, "reward"))
    assert isinstance(reward.posh, PoSh)  # as settings make it
    parsed = reward.posh.reader.read([row["reference"] for row in rows if row not in unseen])
    stock = WordStock.of(each for each in parsed if isinstance(each, Description))
    flags.output.mkdir(parents=True, exist_ok=True)
    short = [{**row, "reference": half(row["reference"])} for row in search]
    target, other = (Target(reward.functions(), some) for some in (short, unseen))
    # a journal of other rows, or of another reward, is not gone on with
    which = (reward.signature, flags.seed, [row["reference"] for row in short])
    name = f"journal-{sha256(repr(which).encode()).hexdigest()[:8]}.jsonl"
    finds = attack(target, stock, flags.output / name, grammars=flags.grammars,
                   budget=flags.budget, seed=flags.seed)  # fmt: skip
    paid = [
        *honest(other),
        *climbed(finds, other, stock),
        *edited(other),
        *labelled(other, reward.templates),
        *joined(other, flags.seed),
    ]
    (flags.output / "finds.md").write_text(table(paid) + "\n", encoding="utf-8")
    (flags.output / "finds.html").write_text(
        page(paid, reward.signature, flags.budget), encoding="utf-8"
    )
    write_text(table(paid))
    return OK


def read_references(name: str, split: str) -> list[dict[str, Any]]:
    """Rows with a reference, out of a file or a dataset; those without one are left out.

    Raises:
        InputError: the file cannot be read, or no row has one.
        ConfigError: the dataset cannot be loaded.
    """
    from posh_reward.study.agreement.judgment_files import read_rows

    rows = read_rows(name, split=split)
    usable = [row for row in rows if isinstance(row.get("reference"), str) and row["reference"]]
    if not usable:
        raise InputError(f"{name} has no row with a text in the column reference")
    return usable
