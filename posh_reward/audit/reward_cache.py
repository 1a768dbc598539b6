"""Rewards to audit, and their cache: each text is scored once, however often a run is resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from inspect import getsourcefile
from itertools import chain
from pathlib import Path
from re import fullmatch
from statistics import fmean
from typing import Any

from posh_reward.errors import ConfigError, InputError, PoshError
from posh_reward.metrics.metric import number_or_nan
from posh_reward.models.encoders import import_function
from posh_reward.reward.instance import make_reward
from posh_reward.reward.trl import MetricReward
from posh_reward.settings import check_settings, read_settings
from posh_reward.tables.tables import Journal
from posh_reward.text_values import read_texts
from posh_reward.types import Failure

JOURNAL_LINE_START = b'{"row": '  # first bytes of the journal's lines
TEXTS_PER_CALL = 96
"""Texts per call of the reward."""

RewardFunction = Callable[..., Sequence[float | None]]
RowText = tuple[int, str]
"""Number of a row, and a text to score on it."""


@dataclass(frozen=True, slots=True)
class Reward:
    """Reward functions for TRL, averaged."""

    functions: Sequence[RewardFunction]
    column: str = "reference"
    """Column of the true texts; of a list of texts, the first is used."""
    signature: str = ""
    requests: Callable[[], int] = lambda: 0
    """Questions that a language model was asked so far."""

    def true_text(self, row: Mapping[str, Any]) -> str:
        texts = read_texts(row[self.column])
        return "" if isinstance(texts, Failure) else texts[0]

    def score(self, rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[float]:
        """Return the rewards of texts, each with its row; NaN for None."""
        names = dict.fromkeys(chain.from_iterable(rows))
        columns: dict[str, list[Any]] = {}
        for name in names:
            columns[name] = [row.get(name) for row in rows]
        prompts = columns.pop("prompt", [""] * len(texts))
        completions: list[str | list[dict[str, str]]] = []
        for prompt, text in zip(prompts, texts, strict=True):
            if isinstance(prompt, list):
                completions.append([{"role": "assistant", "content": text}])
            else:
                completions.append(text)
        rewards = []
        for function in self.functions:
            name = getattr(function, "__name__", type(function).__name__)
            try:
                returned = function(prompts=prompts, completions=completions, **columns)
                numbers = list(map(number_or_nan, returned))
            except PoshError:
                raise
            except Exception as error:
                why = f"the reward {name} failed with {type(error).__name__}: {error}"
                raise InputError(f"{why} (columns: {', '.join(columns)})") from error
            if len(numbers) != len(texts):
                why = f"{len(numbers)} rewards for {len(texts)} completions"
                raise InputError(f"the reward {name} returned {why}: return one for each")
            rewards.append(numbers)
        return list(map(fmean, zip(*rewards, strict=True)))


def open_reward(which: str | None, column: str | None) -> Reward:
    """Open POSH's reward with the settings of a file, or a function or metric's reward by name.

    Args:
        which: a file for ``make_reward``, ``MODULE:NAME``, or None for POSH's reward.
        column: of the true texts; None for the reward's own.

    Raises:
        ConfigError: it cannot be imported, is no function, or a setting is unusable.
    """
    if which and fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", which):
        reward, signature = _import_reward(which)
    else:
        settings = read_settings(Path(which)) if which else {}
        reward, signature = make_reward(**check_settings(make_reward, settings, "reward")), ""
    if not isinstance(reward, MetricReward):
        return Reward([reward], column or "reference", signature)

    def count_requests() -> int:
        usage = reward.metric.usage
        if not usage.prompt_tokens_submitted:
            return 0
        return usage.requests + usage.rewrites

    name = column or reward.reference_column
    return Reward(reward.functions(), name, signature + reward.signature, count_requests)


def _import_reward(which: str) -> tuple[Any, str]:
    """Import a reward; the second is its name with a digest of its file.

    Another version of the code is another reward, whose texts have to be scored again.
    """
    try:
        function = import_function(which)
    except InputError as error:
        raise ConfigError(f"{error}: a reward is f(prompts, completions, ...)") from error
    source = getsourcefile(import_module(which.partition(":")[0]))
    code = Path(source).read_bytes() if source else b""
    return function, f"{which}|code:{sha256(code).hexdigest()[:8]}|"


class RewardCache:
    """Rewards of texts on rows, kept in a journal so that no text is scored twice."""

    def __init__(self, reward: Reward, rows: Sequence[Mapping[str, Any]], journal: Journal) -> None:
        self.truths = list(map(reward.true_text, rows))
        self._reward, self._rows, self._journal = reward, rows, journal
        self._rewards: dict[RowText, float] = {}
        try:
            for line in journal.rows():
                self._rewards[line["row"], line["text"]] = number_or_nan(line["reward"])
        except (KeyError, TypeError, ValueError) as error:
            why = f"{str(journal.path)!r} is not a journal ({error}): delete it"
            raise InputError(why) from None

    def find_unscored(self, texts: Iterable[RowText]) -> list[RowText]:
        """Return the texts that are not in the journal, each once."""
        return [each for each in dict.fromkeys(texts) if each not in self._rewards]

    def score(
        self, texts: Sequence[RowText], progress: Callable[[int], object] = lambda scored: None
    ) -> list[float]:
        """Return the reward of each text; ``progress`` gets the number of each call's new texts."""
        new = self.find_unscored(texts)
        for at in range(0, len(new), TEXTS_PER_CALL):
            some = new[at : at + TEXTS_PER_CALL]
            rows = [self._rows[row] for row, _ in some]
            rewards = self._reward.score(rows, [text for _, text in some])
            self._rewards.update(zip(some, rewards, strict=True))
            lines: list[dict[str, Any]] = []
            for (row, text), reward in zip(some, rewards, strict=True):
                known = None if math.isnan(reward) else reward
                lines.append({"row": row, "text": text, "reward": known})
            self._journal.append(lines)
            progress(len(some))
        return [self._rewards[each] for each in texts]
