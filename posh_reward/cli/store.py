"""``posh-reward store``: what a store holds, and clearing it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from posh_reward.cli.exits import OK

if TYPE_CHECKING:
    from posh_reward.store.store_admin import Survey


def info(flags: argparse.Namespace) -> int:
    """Prints what a store holds."""
    from posh_reward.cli.texts import write_text
    from posh_reward.store.store_admin import survey

    found = survey(flags.path)
    write_text(json.dumps(asdict(found), indent=2) if flags.json else listing(found))
    return OK


def clear(flags: argparse.Namespace) -> int:
    """Removes rows from a store, or a store that is damaged."""
    from posh_reward.store.store_admin import clear

    removed = clear(flags.path, flags.kind, flags.space, any_file=flags.yes)
    what = "the whole file" if removed < 0 else f"{removed:,} row{'s' if removed != 1 else ''}"
    print(f"removed {what}", file=sys.stderr)
    return OK


def listing(survey: Survey) -> str:
    """A store's holdings in columns, with their sum."""
    rows = [(each.kind, f"{each.rows:,}", size(each.bytes), each.space) for each in survey.holdings]
    whole = sum(each.rows for each in survey.holdings)
    held = sum(each.bytes for each in survey.holdings)
    rows = [("kind", "rows", "size", "space"), *rows, ("all", f"{whole:,}", size(held), "")]
    kinds, counts, sizes = (max(len(row[column]) for row in rows) for column in range(3))
    lines = [
        f"{kind:{kinds}}  {count:>{counts}}  {amount:>{sizes}}  {space}".rstrip()
        for kind, count, amount, space in rows
    ]
    about = f"{survey.path!r}: {size(survey.bytes)} on disk, version {survey.version}"
    return "\n".join((about, *lines))


def size(count: int) -> str:
    """Bytes in words, such as ``"1.2 MB"``."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
