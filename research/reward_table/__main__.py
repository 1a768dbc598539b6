"""Audit rewards with ``posh-reward attack`` and write one table of what each pays for.

    python -m research.reward_table research/calibration/artworks.json --output runs/rewards

An hour on two cores for 8 rows; killed, it resumes. With ``CLAIR_URL`` set to an
OpenAI-compatible server (and ``CLAIR_MODEL``), the table also has CLAIR.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward.cli import main as posh_reward
from posh_reward.reward.trl import PoshReward
from research.reward_table import rewards

REWARDS = {
    "length": "words, up to 100",
    "rouge_l": "ROUGE-L",
    "bertscore": "BERTScore-like (MiniLM)",
    "capture": "CAPTURE-like (graphs by word)",
    "clair": "CLAIR-like (a language model's 0 to 100)",
    "posh": "POSH, embedded judge",
}
LINE = re.compile(r"^\| (?P<kind>[^|:]+): (?P<name>[^|]+?) \|.*\| (?P<verdict>\w+) \|$")
HEADING = re.compile(r"^\| (pass though false|fail though honest) \|")
Finds = dict[str, dict[str, list[tuple[str, str]]]]
"""Half -> verdict -> kinds and names of checks."""
FRESH = Path(__file__).with_name("fresh.json")
MAX_NAMED = 12
"""Most names of one kind in the table; a kind of more is only counted."""


def read_finds(text: str) -> Finds:
    """Read the tables of ``finds.md``."""
    finds: Finds = {}
    half: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        if heading := HEADING.match(line):
            half = finds.setdefault(heading[1], defaultdict(list))
        elif found := LINE.match(line):
            half[found["verdict"]].append((found["kind"], found["name"]))
    return finds


def table(finds: Mapping[str, Finds]) -> str:
    """One row per reward, then the names of what was found."""
    lines = ["| reward | pass though false | open | fail though honest | open |"]
    lines.append("| --- " * 5 + "|")
    for name, halves in finds.items():
        cells = []
        for half in halves.values():
            total = sum(map(len, half.values()))
            cells += [f"{len(half.get('found', []))} of {total}", str(len(half.get("open", [])))]
        lines.append(f"| {REWARDS[name]} | {' | '.join(cells)} |")
    for name, halves in finds.items():
        lines += ["", f"## {REWARDS[name]}"]
        for part, verdicts in halves.items():
            lines += ["", f"**Texts that {part}:** {named(verdicts.get('found', []))}."]
    return "\n".join(lines)


def named(found: Sequence[tuple[str, str]]) -> str:
    """List checks by kind."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, name in found:
        kinds[kind].append(name)
    return (
        "; ".join(
            f"{kind} ({len(names)})" + (f": {', '.join(names)}" if len(names) <= MAX_NAMED else "")
            for kind, names in kinds.items()
        )
        or "none found"
    )


def fresh(names: Sequence[str]) -> str:
    """Make the table of twenty rows that were written before any of them was scored."""
    rows: list[dict[str, str]] = json.loads(FRESH.read_text("utf-8"))
    references = [row["reference"] for row in rows]
    lines = ["| reward | the true text | in other words | made false | in other words earns more |"]
    lines.append("| --- " * 5 + "|")
    for name in names:
        reward: Any = PoshReward() if name == "posh" else getattr(rewards, name)
        paid: dict[str, list[float]] = {
            column: reward(completions=[row[column] for row in rows], reference=references)
            for column in ("reference", "faithful", "false")
        }
        more = sum(a > b for a, b in zip(paid["faithful"], paid["false"], strict=True))
        cells = [f"{fmean(each):.3f}" for each in paid.values()]
        lines.append(f"| {REWARDS[name]} | {' | '.join(cells)} | {more} of {len(rows)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Audit each reward, and write ``table.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("data")
    add("--output", type=Path, required=True)
    add("--rewards", nargs="+", choices=REWARDS, default=list(REWARDS))
    options, others = parser.parse_known_args(arguments)  # others are flags of the audit
    chosen = [each for each in options.rewards if each != "clair" or "CLAIR_URL" in os.environ]
    finds = {}
    for name in chosen:
        folder = options.output / name
        flags = [options.data, "--output", str(folder), *others]
        if name != "posh":
            flags += ["--reward", f"research.reward_table.rewards:{name}"]
        status = posh_reward(["attack", *flags])
        if status > 1:
            sys.exit(f"{name}: the audit ended with status {status}")
        finds[name] = read_finds((folder / "finds.md").read_text("utf-8"))
    (options.output / "table.md").write_text(report(finds, options.data, others), "utf-8")


def report(finds: Mapping[str, Finds], data: str, flags: Sequence[str]) -> str:
    """The results file."""
    absent = [REWARDS[name] for name in REWARDS if name not in finds]
    return f"""\
# What rewards pay for

`python -m research.reward_table {data} {" ".join(flags)}`: the audit of
[`posh-reward attack`](../../docs/audit.md) of each reward on the same rows. Counts are of checks
that were *found*; *open* ones the rows do not settle. The rewards are short versions after their
papers, not the papers' code. Not run: {", ".join(absent) or "none"}.

Two things favour some rewards: the true text is the reference itself, so overlap with it is
complete; and POSH's embedded judge was calibrated on the same rows. So, first, mean rewards on
twenty rows that no judge has learned from, written in a museum's style for this table
(`{FRESH.name}`) before any was scored: a text, the same in other words, and the text with most of
its details made false. Those in other words are a fifth longer, which pays for length.

{fresh([*finds])}

The audit:

{table(finds)}

POSH: `{PoshReward().signature}`
"""


if __name__ == "__main__":
    main()
