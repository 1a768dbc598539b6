"""Rewards to audit, and what they pay for texts: each text once, however often a run is resumed."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from re import fullmatch
from statistics import fmean
from typing import Any

from posh_reward.errors import ConfigError, InputError, PoshError
from posh_reward.reward.instance import make_reward
from posh_reward.reward.trl import MetricReward
from posh_reward.settings import check_settings, read_settings
from posh_reward.tables.tables import Journal
from posh_reward.text_values import read_texts
from posh_reward.types import Failure

BEGINS = b'{"row": '  # first bytes of the journal's lines
AT_ONCE = 96
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

    def pay(self, rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[float]:
        """Return the rewards of texts, each with its row; NaN for None."""
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        prompts = columns.pop("prompt", [""] * len(texts))
        completions = [
            [{"role": "assistant", "content": text}] if isinstance(prompt, list) else text
            for prompt, text in zip(prompts, texts, strict=True)
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


def open_reward(which: str | None, column: str | None) -> Reward:
    """Open POSH's reward with the settings of a file, or a function or metric's reward by name.

    Args:
        which: a file for ``make_reward``, ``MODULE:NAME``, or None for POSH's reward.
        column: of the true texts; None for the reward's own.

    Raises:
        ConfigError: it cannot be imported, is no function, or a setting is unusable.
    """
    if which and fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", which):
        reward, signature = _imported(which)
    else:
        settings = read_settings(Path(which)) if which else {}
        reward, signature = make_reward(**check_settings(make_reward, settings, "reward")), ""
    if not isinstance(reward, MetricReward):
        return Reward([reward], column or "reference", signature)

    def requests() -> int:
        usage = reward.metric.usage
        return usage.requests + usage.rewrites if usage.prompt_tokens_submitted else 0

    name = column or reward.reference_column
    return Reward(reward.functions(), name, signature + reward.signature, requests)


def _imported(which: str) -> tuple[Any, str]:
    """Import a reward; the second is its name with a digest of its file.

    Another version of the code is another reward, whose texts have to be paid again.
    """
    module, _, name = which.partition(":")
    here = os.getcwd()
    if here not in sys.path:  # as with `python -m`, but last, so that nothing is shadowed
        sys.path.append(here)
    try:
        function = getattr(import_module(module), name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"the reward {which!r} cannot be imported ({why})") from error
    if not callable(function):
        raise ConfigError(
            f"{which!r} is {function!r}: name a function f(prompts, completions, ...)"
        )
    source = getsourcefile(import_module(module))
    code = Path(source).read_bytes() if source else b""
    return function, f"{which}|code:{sha256(code).hexdigest()[:8]}|"


class Ledger:
    """Rewards of texts on rows, kept in a journal so that none is paid for twice."""

    def __init__(self, reward: Reward, rows: Sequence[Mapping[str, Any]], journal: Journal) -> None:
        self.truths = [reward.true_text(row) for row in rows]
        self._reward, self._rows, self._journal = reward, rows, journal
        self._paid: dict[RowText, float] = {}
        try:
            for line in journal.rows():
                reward_or_none = line["reward"]
                paid = math.nan if reward_or_none is None else float(reward_or_none)
                self._paid[line["row"], line["text"]] = paid
        except (KeyError, TypeError, ValueError) as error:
            why = f"{str(journal.path)!r} is not a journal ({error}): delete it"
            raise InputError(why) from None

    def unpaid(self, texts: Iterable[RowText]) -> list[RowText]:
        """Return the texts that are not in the journal, each once."""
        return [each for each in dict.fromkeys(texts) if each not in self._paid]

    def pay(
        self, texts: Sequence[RowText], progress: Callable[[int], object] = lambda paid: None
    ) -> list[float]:
        """Return the reward of each text; ``progress`` gets the number of each call's new texts."""
        rest = self.unpaid(texts)
        for at in range(0, len(rest), AT_ONCE):
            some = rest[at : at + AT_ONCE]
            rows = [self._rows[row] for row, _ in some]
            rewards = self._reward.pay(rows, [text for _, text in some])
            self._paid.update(zip(some, rewards, strict=True))
            self._journal.append(
                {"row": row, "text": text, "reward": None if math.isnan(paid) else paid}
                for (row, text), paid in zip(some, rewards, strict=True)
            )
            progress(len(some))
        return [self._paid[each] for each in texts]
