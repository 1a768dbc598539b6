"""A budget of calls, a seed and a journal -> the best find of each grammar.

Each grammar starts from random units and climbs: mutants of the best text so far are paid, and the
best of them replaces it if it is paid more. Mutants race row by row, and drop out as soon as they
are paid less than it, so that several rows cost little more than one. Climbs do not depend on each
other, and every round has a random generator of its own, so that a climb that was broken off goes
on as if it had not been.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward.attack.grammars import (
    GRAMMARS,
    Grammar,
    Units,
    WordStock,
    addition,
    mutant,
    stems,
)
from posh_reward.errors import InputError

ROUND = 8
"""Mutants of one round, which share one call of the reward."""
LONGEST = 160
"""Words of a blind text at most: about as many as a description has."""
LONGEST_ADDITION = 60
SENTENCE = re.compile(r"(?<=[.!?])\s+")

RewardFunction = Callable[..., Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Target:
    """A reward, and rows that it pays for.

    Args:
        functions: TRL reward functions; a completion earns their mean.
        rows: of a dataset, each with a ``reference`` and whatever else the functions need.
    """

    functions: Sequence[RewardFunction]
    rows: Sequence[Mapping[str, Any]]

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Target:
        """The same reward for other rows."""
        return Target(self.functions, rows)

    def pay(self, candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """Rewards of some candidates, each with a text for every row; NaN without a reward."""
        if not candidates:
            return []
        texts = [text for candidate in candidates for text in candidate]
        columns = {
            name: [row[name] for _ in candidates for row in self.rows] for name in self.rows[0]
        }
        earned = [
            function(prompts=[""] * len(texts), completions=texts, **columns)
            for function in self.functions
        ]
        flat = [math.nan if None in each else fmean(each) for each in zip(*earned, strict=True)]
        size = len(self.rows)
        return [flat[start : start + size] for start in range(0, len(flat), size)]


@dataclass(frozen=True, slots=True)
class Find:
    """The best text of one grammar after some calls."""

    grammar: str
    behind: bool
    """True for an addition to an honest text, which is paid by its gain for ten words."""
    round: int
    calls: int
    """Texts that raced so far."""
    values: tuple[float, ...]
    """Reward on each row of the search, or gain for ten words."""
    units: Units

    @property
    def value(self) -> float:
        """Mean of the values."""
        return _mean(self.values)


def sentences(text: str) -> list[str]:
    """Sentences, as full stops tell."""
    return SENTENCE.split(text.strip())


def half(text: str) -> str:
    """The first half of the sentences: honest, and not complete."""
    parts = sentences(text)
    return " ".join(parts[: max(1, len(parts) // 2)])


@dataclass(frozen=True, slots=True)
class Climb:
    """The search of one grammar."""

    target: Target
    grammar: str
    behind: bool
    stock: WordStock
    seed: int = 0
    halves: dict[str, float] = field(default_factory=dict, init=False, compare=False)
    """Rewards of the honest texts that additions stand behind; filled when needed."""

    def finds(self, budget: int, last: Find | None = None) -> Iterator[Find]:
        """The best find after each round, until the budget of calls is spent."""
        best = last or self._first()
        if last is None:
            yield best
        while best.calls + ROUND <= budget:
            best = self._next(best)
            yield best

    def texts(self, units: Units, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """The text of a genome for each row; an addition leaves out what the row's text has."""
        grammar = GRAMMARS[self.grammar]
        if not self.behind:
            return [grammar.join(units)] * len(rows)
        return [
            addition(half(row["reference"]), units, grammar, frozenset(stems(row["reference"])))
            for row in rows
        ]

    def values(self, genomes: Sequence[Units], target: Target) -> list[float]:
        """Mean reward of each genome, or mean gain for ten words; -inf if a row has no reward."""
        return [_mean(each) for each in self._by_row(genomes, target)]

    def _by_row(self, genomes: Sequence[Units], target: Target) -> list[list[float]]:
        texts = [self.texts(units, target.rows) for units in genomes]
        if not self.behind:
            return target.pay(texts)
        honest = [half(row["reference"]) for row in target.rows]
        if any(text not in self.halves for text in honest):
            self.halves.update(zip(honest, *target.pay([honest]), strict=True))
        base = [self.halves[text] for text in honest]
        paid = target.pay(texts)
        return [
            [
                (reward - before) * 10 / max(10, len(text.split()) - len(start.split()))
                for reward, before, text, start in zip(rewards, base, some, honest, strict=True)
            ]
            for rewards, some in zip(paid, texts, strict=True)
        ]

    def _race(self, genomes: Sequence[Units], best: Find) -> tuple[Units, tuple[float, ...]]:
        """The best genome and its values by row; the best find's if none is paid more.

        Genomes are paid row by row, and drop out as soon as they are paid less than the best find
        on the same rows. Each round begins with another row, so that none decides alone.
        """
        rows = self.target.rows
        paid: dict[int, dict[int, float]] = {index: {} for index in range(len(genomes))}
        for step in range(len(rows)):
            row = (best.round + step) % len(rows)
            some = self._by_row([genomes[index] for index in paid], self.target.of([rows[row]]))
            for earned, [value] in zip(paid.values(), some, strict=True):
                earned[row] = value
            paid = {
                index: earned
                for index, earned in paid.items()
                if _mean([*earned.values()]) > _mean([best.values[each] for each in earned])
            }
        if not paid:
            return best.units, best.values
        winner = max(paid, key=lambda index: (_mean([*paid[index].values()]), -index))
        return tuple(genomes[winner]), tuple(paid[winner][row] for row in range(len(rows)))

    def _first(self) -> Find:
        genomes = [self._start(self._rng(0, index)) for index in range(ROUND)]
        nothing = (-math.inf,) * len(self.target.rows)
        return self._best(genomes, Find(self.grammar, self.behind, 0, 0, nothing, genomes[0]))

    def _next(self, best: Find) -> Find:
        grammar = GRAMMARS[self.grammar]
        genomes = []
        for index in range(ROUND):
            genome = mutant(best.units, grammar, self._rng(best.round + 1, index), self.stock)
            genomes.append(self._cut(genome, grammar))
        return self._best(genomes, best)

    def _best(self, genomes: Sequence[Units], best: Find) -> Find:
        units, values = self._race(genomes, best)
        number = best.round + 1 if best.calls else 0
        calls = best.calls + len(genomes)
        return Find(self.grammar, self.behind, number, calls, values, units)

    def _start(self, rng: random.Random) -> Units:
        grammar = GRAMMARS[self.grammar]
        size = max(2, round(grammar.start * rng.uniform(0.3, 1.5)))
        return self._cut(tuple(grammar.unit(rng, self.stock) for _ in range(size)), grammar)

    def _cut(self, units: Units, grammar: Grammar) -> Units:
        longest = LONGEST_ADDITION if self.behind else LONGEST
        while len(units) > 1 and len(grammar.join(units).replace("-", " ").split()) > longest:
            units = units[:-1]
        return units

    def _rng(self, number: int, index: int) -> random.Random:
        return random.Random(f"{self.seed} {self.grammar} {self.behind} {number} {index}")


def _mean(values: Sequence[float]) -> float:
    mean = fmean(values)
    return -math.inf if math.isnan(mean) else mean


def attack(
    target: Target,
    stock: WordStock,
    journal: Path,
    *,
    grammars: Sequence[str] = tuple(GRAMMARS),
    budget: int = 2000,
    seed: int = 0,
) -> list[Find]:
    """The best find of each grammar, alone and behind an honest text.

    Args:
        target: the reward, and the rows that the search may use.
        stock: the words of texts.
        journal: a file of JSON lines; a search that was broken off goes on from there.
        grammars: names in ``GRAMMARS``.
        budget: texts that race in each climb.
        seed: of all that is drawn.

    Raises:
        InputError: a grammar is unknown, or there is no row.
    """
    unknown = [name for name in grammars if name not in GRAMMARS]
    if unknown or not target.rows:
        raise InputError(
            f"no grammar is called {unknown[0]!r}: choose {', '.join(GRAMMARS)}"
            if unknown
            else "there are no rows to search on: give a table with the column reference"
        )
    best = read_journal(journal)
    with journal.open("a", encoding="utf-8") as file:
        for name in grammars:
            for behind in (False, True):
                climb = Climb(target, name, behind, stock, seed)
                for find in climb.finds(budget, best.get((name, behind))):
                    best[name, behind] = find
                    file.write(json.dumps(asdict(find)) + "\n")
                    file.flush()
    return [best[name, behind] for name in grammars for behind in (False, True)]


def read_journal(path: Path) -> dict[tuple[str, bool], Find]:
    """The last find of each climb; a last line that was cut short is removed."""
    last: dict[tuple[str, bool], Find] = {}
    if not path.exists():
        return last
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    for line in whole.splitlines():
        values = json.loads(line)
        find = Find(
            **{**values, "values": tuple(values["values"]), "units": tuple(values["units"])}
        )
        last[find.grammar, find.behind] = find
    return last
