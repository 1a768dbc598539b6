"""``posh-reward attack``: search for untrue texts that a reward pays."""

from __future__ import annotations

import argparse
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

from posh_reward.attack.grammars import GRAMMARS
from posh_reward.cli import OK
from posh_reward.cli.flags import add_trust, describe, positive, write_file, write_text
from posh_reward.errors import InputError

ATTACK = """\
Search for texts that a reward pays although they are not true of the image. Run it before training
with a judge of your own, and after each change of judge or rules (docs/rewards.md).

Grammars write texts without seeing the image, alone and after the first half of a reference (minus
its row's words). True texts are edited, their words joined by single characters, and the prompt's
labels appended. The search is paid on a few rows against the first half of their references, which
takes half the time; the table is paid on other rows, in full. A killed run resumes with the same
command. Writes finds.md, finds.html and a journal to DIR."""
UNSEEN = 12
"""Most rows that the finds are finally paid on."""
STOCK_ROWS = 500
"""Most rows that the vocabulary is collected from: more would be parsed in vain."""


def add_attack(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``attack``."""
    describe(command, ATTACK, "attack scenes:plain=1 -o runs/attack --budget 500")
    add = command.add_argument
    add("data", metavar="DATA", help="table with a column of references, or a dataset's name")
    add("--split", default="test", help="split of a dataset")
    add("--reward", type=Path, metavar="YAML", help="settings of the reward: its metric and "
        "shaping (docs/rewards.md)")  # fmt: skip
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--grammars", nargs="+", default=list(GRAMMARS), choices=GRAMMARS, metavar="NAME",
        help=f"grammars to try (default: all, which are {', '.join(GRAMMARS)})")  # fmt: skip
    add("--budget", type=positive, default=2000, help="texts that each search tries")
    add("--search", type=positive, default=4, metavar="ROWS", help="rows that searches are paid on")
    add("--seed", type=int, default=0, help="seed of the search")
    add_trust(command)
    command.set_defaults(command=attack_reward)


def attack_reward(flags: argparse.Namespace) -> int:
    """Search, measure and write."""
    from posh_reward.attack.climb import Target, attack, half
    from posh_reward.attack.finds import climbed, edited, honest, joined, labelled, page, table
    from posh_reward.attack.grammars import WordStock
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.process.progress import progress_bar
    from posh_reward.reward.instance import make_reward
    from posh_reward.settings import check_settings, read_settings
    from posh_reward.types import Description

    settings = read_settings(flags.reward) if flags.reward else {}
    reward = make_reward(**check_settings(make_reward, settings, "reward"))
    assert isinstance(reward.metric, PoSh)
    rows = read_references(flags.data, flags.split, reward.reference_column)
    reward.reference_column = "reference"
    random.Random(flags.seed).shuffle(rows)
    search, unseen = rows[: flags.search], rows[flags.search :][:UNSEEN]
    if not unseen:
        raise InputError(
            f"{flags.data} has {len(rows)} rows: use more than --search ({flags.search}), since "
            "finds are paid on other rows"
        )
    others = [*search, *rows[flags.search + UNSEEN :]][:STOCK_ROWS]
    parsed = reward.metric.reader.read([row["reference"] for row in others])
    stock = WordStock.of(each for each in parsed if isinstance(each, Description))
    flags.output.mkdir(parents=True, exist_ok=True)
    short = [{**row, "reference": half(row["reference"])} for row in search]
    target, other = (Target(reward.functions(), some) for some in (short, unseen))
    # The name keeps a journal of other rows, or of another reward, from being resumed.
    which = (reward.signature, flags.seed, [row["reference"] for row in short])
    name = f"journal-{sha256(repr(which).encode()).hexdigest()[:8]}.jsonl"
    with progress_bar("attack", 2 * len(flags.grammars) * flags.budget, "text") as bar:
        finds = attack(target, stock, flags.output / name, grammars=flags.grammars,
                       budget=flags.budget, seed=flags.seed, progress=bar.update)  # fmt: skip
    paid = [
        *honest(other),
        *climbed(finds, other, stock),
        *edited(other),
        *labelled(other),
        *joined(other, flags.seed),
    ]
    write_file(flags.output / "finds.md", f"{table(paid)}\n".encode())
    write_file(flags.output / "finds.html", page(paid, reward.signature, flags.budget).encode())
    write_text(table(paid))
    return OK


def read_references(name: str, split: str, column: str) -> list[dict[str, Any]]:
    """Read the rows that have a reference, in ``reference``, from a file or a dataset.

    Raises:
        InputError: the file cannot be read, or no row has a reference.
        ConfigError: the dataset cannot be loaded.
    """
    from posh_reward.study.agreement.judgment_files import read_rows

    rows = read_rows(name, split=split)
    usable = [
        {**row, "reference": reference}
        for row in rows
        if isinstance(reference := row.get(column), str) and reference
    ]
    if not usable:
        raise InputError(f"no row of {name} has a text in the column {column}")
    return usable
