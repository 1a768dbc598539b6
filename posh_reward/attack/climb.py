"""Search for the best text of each grammar by hill climbing.

A climb starts from random units. Each round scores mutants of the best text so far, and the best
of them replaces it if its reward is higher. Mutants race row by row and drop out once they fall
behind, so several rows cost little more than one. Climbs are independent and each mutant has its
own random generator, so an interrupted climb resumes with the same results.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
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
from posh_reward.errors import InputError, PoshError
from posh_reward.study.rows.journal import Journal

BEGINS = b'{"grammar": '  # first bytes of a journal's lines
ROUND = 8
"""Mutants per round, scored in one call of the reward."""
LONGEST = 160
"""Maximum words of a blind text: about the length of a description."""
LONGEST_ADDITION = 60
SENTENCE = re.compile(r"(?<=[.!?])\s+")

RewardFunction = Callable[..., Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Target:
    """A reward and dataset rows to score texts on.

    Args:
        functions: TRL reward functions, averaged.
        rows: with all columns that the functions need.
        column: of the rows' true texts; of a list of texts, the first is used.
    """

    functions: Sequence[RewardFunction]
    rows: Sequence[Mapping[str, Any]]
    column: str = "reference"

    def true_text(self, row: int) -> str:
        """Return a row's true text."""
        value = self.rows[row][self.column]
        return value if isinstance(value, str) else str(value[0])

    def rewards(self, texts: Sequence[tuple[int, str]]) -> list[float]:
        """Return the rewards of texts, each with the number of its row; NaN for None.

        Raises:
            InputError: a function raises, or returns anything but a number or None for each text.
        """
        if not texts:
            return []
        rows = [self.rows[row] for row, _ in texts]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        prompts = columns.pop("prompt", [""] * len(texts))
        completions = [
            [{"role": "assistant", "content": text}] if isinstance(prompt, list) else text
            for prompt, (_, text) in zip(prompts, texts, strict=True)
        ]
        rewards = []
        for function in self.functions:
            name = getattr(function, "__name__", type(function).__name__)
            try:
                paid = function(prompts=prompts, completions=completions, **columns)
                numbers = [math.nan if each is None else float(each) for each in paid]
            except PoshError:
                raise
            except Exception as error:
                why = f"the reward {name} failed with {type(error).__name__}: {error}"
                raise InputError(f"{why} (columns: {', '.join(columns)})") from error
            if len(numbers) != len(texts):
                why = f"{len(numbers)} rewards for {len(texts)} completions"
                raise InputError(f"the reward {name} returned {why}: return one for each")
            rewards.append(numbers)
        return [fmean(each) for each in zip(*rewards, strict=True)]

    def pay(self, candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return rewards by candidate and row; a candidate has one text per row."""
        size = len(self.rows)
        flat = self.rewards([each for texts in candidates for each in enumerate(texts)])
        return [flat[at * size : (at + 1) * size] for at in range(len(candidates))]


@dataclass(frozen=True, slots=True)
class Find:
    """The best text of one grammar so far."""

    grammar: str
    behind: bool
    """True for an addition to an honest text, valued by its gain per ten words."""
    round: int
    calls: int
    """Genomes tried so far."""
    values: tuple[float, ...]
    """Reward, or gain per ten words, on each row of the search."""
    units: Units

    @property
    def value(self) -> float:
        """Mean of the values."""
        return _mean(self.values)


def sentences(text: str) -> list[str]:
    """Split a text after sentence punctuation."""
    return SENTENCE.split(text.strip())


def half(text: str) -> str:
    """Return the first half of the sentences: true but incomplete."""
    parts = sentences(text)
    return " ".join(parts[: max(1, len(parts) // 2)])


@dataclass(frozen=True, slots=True)
class Climb:
    """Search of one grammar."""

    target: Target
    grammar: str
    behind: bool
    stock: WordStock
    seed: int = 0
    halves: dict[str, float] = field(default_factory=dict, init=False, compare=False)
    """Cached rewards of the honest texts that additions follow."""

    def finds(self, budget: int, last: Find | None = None) -> Iterator[Find]:
        """Yield the best find after each round until the budget is spent."""
        best = last or self._first()
        if last is None:
            yield best
        while best.calls + ROUND <= budget:
            best = self._next(best)
            yield best

    def texts(self, units: Units, target: Target) -> list[str]:
        """Write a genome as a text per row; additions skip words of the row's reference."""
        grammar = GRAMMARS[self.grammar]
        if not self.behind:
            return [grammar.join(units)] * len(target.rows)
        true = map(target.true_text, range(len(target.rows)))
        return [addition(half(text), units, grammar, frozenset(stems(text))) for text in true]

    def values(self, genomes: Sequence[Units], target: Target) -> list[float]:
        """Return each genome's mean reward or gain; -inf if a row has no reward."""
        return [_mean(each) for each in self._by_row(genomes, target)]

    def _by_row(self, genomes: Sequence[Units], target: Target) -> list[list[float]]:
        texts = [self.texts(units, target) for units in genomes]
        if not self.behind:
            return target.pay(texts)
        honest = [half(target.true_text(row)) for row in range(len(target.rows))]
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

    def _race(self, genomes: Sequence[Units], best: Find) -> Find:
        """Return the best genome as the next find; the previous best if none beats it.

        Genomes are scored row by row and drop out unless their mean so far exceeds the best
        find's on the same rows. Each round begins with another row, so that no row dominates.
        """
        rows = self.target.rows
        paid: dict[int, dict[int, float]] = {index: {} for index in range(len(genomes))}
        for step in range(len(rows)):
            row = (best.round + step) % len(rows)
            target = Target(self.target.functions, [rows[row]], self.target.column)
            scored = self._by_row([genomes[index] for index in paid], target)
            for earned, [value] in zip(paid.values(), scored, strict=True):
                earned[row] = value
            paid = {
                index: earned
                for index, earned in paid.items()
                if _mean([*earned.values()]) > _mean([best.values[each] for each in earned])
            }
        units, values = best.units, best.values
        if paid:
            winner = max(paid, key=lambda index: (_mean([*paid[index].values()]), -index))
            units = genomes[winner]
            values = tuple(paid[winner][row] for row in range(len(rows)))
        number = best.round + 1 if best.calls else 0
        return Find(self.grammar, self.behind, number, best.calls + len(genomes), values, units)

    def _first(self) -> Find:
        grammar = GRAMMARS[self.grammar]
        genomes = []
        for index in range(ROUND):
            rng = self._rng(0, index)
            size = max(2, round(grammar.start * rng.uniform(0.3, 1.5)))
            units = tuple(grammar.unit(rng, self.stock) for _ in range(size))
            genomes.append(self._cut(units, grammar))
        worst = (-math.inf,) * len(self.target.rows)
        return self._race(genomes, Find(self.grammar, self.behind, 0, 0, worst, genomes[0]))

    def _next(self, best: Find) -> Find:
        grammar = GRAMMARS[self.grammar]
        genomes = []
        for index in range(ROUND):
            genome = mutant(best.units, grammar, self._rng(best.round + 1, index), self.stock)
            genomes.append(self._cut(genome, grammar))
        return self._race(genomes, best)

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
    budget: int = 80,
    seed: int = 0,
    progress: Callable[[int], object] = lambda tried: None,
) -> list[Find]:
    """Find the best text of each grammar, alone and after an honest text.

    Args:
        target: the reward and the rows for the search.
        stock: the vocabulary.
        journal: a file of JSON lines, from which an interrupted search resumes.
        grammars: names in ``GRAMMARS``.
        budget: genomes tried per climb.
        seed: seed of all random choices.
        progress: called with the number of genomes tried since its last call.

    Raises:
        InputError: a grammar is unknown, or there are no rows.
    """
    for name in grammars:
        if name not in GRAMMARS:
            raise InputError(f"unknown grammar {name!r}: choose one of {', '.join(GRAMMARS)}")
    if not target.rows:
        raise InputError("there are no rows to search on: use a table with a column of true texts")
    with closing(Journal(journal, BEGINS)) as file:
        best = _best_finds(file)
        for name in grammars:
            for behind in (False, True):
                climb = Climb(target, name, behind, stock, seed)
                last = best.get((name, behind))
                progress(last.calls if last else 0)
                for find in climb.finds(budget, last):
                    progress(find.calls - (last.calls if last else 0))
                    last = best[name, behind] = find
                    file.append([_as_row(find)])
    return [best[name, behind] for name in grammars for behind in (False, True)]


def _as_row(find: Find) -> dict[str, Any]:
    """A find as JSON takes it: null for a row without reward (-inf)."""
    values = [value if math.isfinite(value) else None for value in find.values]
    return asdict(find) | {"values": values}


def _best_finds(journal: Journal) -> dict[tuple[str, bool], Find]:
    """Return the last find of each climb; ``InputError`` if the file is no such journal."""
    last: dict[tuple[str, bool], Find] = {}
    try:
        for row in journal.rows():
            values = tuple(-math.inf if value is None else value for value in row["values"])
            find = Find(**row | {"values": values, "units": tuple(row["units"])})
            last[find.grammar, find.behind] = find
    except (ValueError, TypeError, KeyError) as error:
        why = f"{str(journal.path)!r} is not a journal ({error}): delete it"
        raise InputError(why) from None
    return last
