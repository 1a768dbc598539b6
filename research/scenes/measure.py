"""Does a reward fall when a sentence is falsified, and not when it is reworded?

    python -m research.scenes.measure FILE... [--reader READER] [--metric SETTINGS]

Each scene's honest description is scored against its reference: whole, without each sentence, and
with each falsified or reworded sentence in its place. A sentence *pays* the reward with it minus
the reward without it. A falsification is *found* if the reward falls more than for nine of ten
rewordings.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from posh_reward import PoshReward, load_metric

KINDS = (
    "verb", "preposition", "side", "colour", "count", "attachment", "role", "object", "part",
    "negation",
)  # fmt: skip
TEXTS_PER_CALL = 64
REWORDINGS_BELOW_LIMIT = 0.9  # share of rewordings whose fall is no find


class Change(NamedTuple):
    """One description of a scene: the honest one, or one that differs in one sentence."""

    scene: int
    what: str  # "honest", "without", "rewording", or a kind of falsification
    sentence: int
    text: str


@dataclass(frozen=True, slots=True)
class Falls:
    """What changes of single sentences do to the reward."""

    honest: list[float]  # rewards
    true_pay: list[float]
    false_pay: list[float]
    reworded: list[float]  # falls of the reward
    false: dict[str, list[float]]  # falls of the reward, by kind

    def list_false(self) -> list[float]:
        return [fall for falls in self.false.values() for fall in falls]


def list_changes(scene: int, row: dict[str, Any]) -> Iterator[Change]:
    """Yield all descriptions of a scene."""
    honest = row["honest"]
    yield Change(scene, "honest", -1, " ".join(honest))
    for place in range(len(honest)):
        left = [*honest[:place], *honest[place + 1 :]]
        yield Change(scene, "without", place, " ".join(left))
    reworded = [("rewording", each) for each in row["rewordings"]]
    for what, each in (*reworded, *((each["kind"], each) for each in row["false"])):
        place = each["sentence"]
        changed = [*honest[:place], each["text"], *honest[place + 1 :]]
        yield Change(scene, what, place, " ".join(changed))


def score_changes(rows: Sequence[dict[str, Any]], reward: PoshReward) -> Falls:
    """Score all descriptions of some scenes."""
    changes = [change for number, row in enumerate(rows) for change in list_changes(number, row)]
    rewards: list[float] = []
    for start in range(0, len(changes), TEXTS_PER_CALL):
        batch = changes[start : start + TEXTS_PER_CALL]
        found = reward(
            completions=[change.text for change in batch],
            reference=[rows[change.scene]["reference"] for change in batch],
        )
        rewards += [value for value in found if value is not None]
    assert len(rewards) == len(changes), "every scene can be judged"
    paid = list(zip(changes, rewards, strict=True))
    honest = {change.scene: value for change, value in paid if change.what == "honest"}
    without = {(c.scene, c.sentence): value for c, value in paid if c.what == "without"}
    falls = Falls(list(honest.values()), [], [], [], {kind: [] for kind in KINDS})
    for change, value in paid:
        whole = honest[change.scene]
        if change.what == "without":
            falls.true_pay.append(whole - value)
        elif change.what == "rewording":
            falls.reworded.append(whole - value)
        elif change.what in KINDS:
            falls.false[change.what].append(whole - value)
            falls.false_pay.append(value - without[change.scene, change.sentence])
    return falls


def area_under_curve(falls: Iterable[float], reworded: Sequence[float]) -> float:
    """Probability that a falsification's fall is larger than a rewording's; ties count half."""
    return fmean((a > b) + (a == b) / 2 for a in falls for b in reworded)


def report(falls: Falls) -> Iterator[str]:
    """Yield the lines that are printed."""
    limit = sorted(falls.reworded)[int(REWORDINGS_BELOW_LIMIT * len(falls.reworded))]
    false = falls.list_false()
    yield f"honest reward {fmean(falls.honest):.3f}"
    yield (
        f"falsified over reworded: AUC {area_under_curve(false, falls.reworded):.3f}, "
        f"found {fmean(fall > limit for fall in false):.2f}"
    )
    for kind, own in falls.false.items():
        found = fmean(fall > limit for fall in own)
        yield f"  {kind}: AUC {area_under_curve(own, falls.reworded):.2f}, found {found:.2f}"
    for name, pay in (("true", falls.true_pay), ("false", falls.false_pay)):
        share = fmean(value > 0 for value in pay)
        yield f"a {name} sentence pays {fmean(pay):+.4f}; {share:.0%} pay"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--reader", help="reader of sentences, as for posh-reward score")
    parser.add_argument("--metric", help="settings of the metric")
    flags = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for file in flags.files:
        rows += map(json.loads, file.read_text(encoding="utf-8").splitlines())
    reward = PoshReward(load_metric(flags.metric, reader=flags.reader))
    print(f"{len(rows)} scenes, {reward.signature}")
    for line in report(score_changes(rows, reward)):
        print(line)


if __name__ == "__main__":
    main()
