"""How an examination asks: how much at a time, and in which turn. No score depends on it."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from posh_reward.types import Phrase, Question, Reply, Verdict

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Pace = Literal["lazy", "brisk", "eager"]
"""lazy: an entity's candidates one after another, and only those that can still win: the fewest
tokens. brisk: the rewrites of all candidates of a pass in one call, then their questions in few
calls: the fewest waits. eager: all that the release asks, at once."""

SINGLY: dict[Pace, float] = {"lazy": math.inf, "brisk": 1, "eager": 0}
"""How many calls of a pass ask about one candidate of each entity; the next asks about all the
rest. Measured in docs/performance.md."""


class Ask(NamedTuple):
    """What an examination wants answered next."""

    turn: tuple[int, int, int]
    """Pass, wave, and 0 for rewrites or 1 for questions. Examinations side by side wait for those
    that are at an earlier turn, so that each turn is one call to the judge."""
    items: list[Phrase] | list[Question]


Answers = Sequence[Reply] | Sequence[Verdict]
T = TypeVar("T")
Asking = Generator[Ask, Answers, T]
"""Yields what it wants answered, is sent the answers, and returns a ``T``."""


def is_rewrites(items: list[Phrase] | list[Question]) -> TypeIs[list[Phrase]]:
    """Whether phrases are to be rewritten rather than questions answered."""
    return isinstance(items[0], Phrase)


def rewritten(turn: tuple[int, int], phrases: list[Phrase]) -> Asking[list[Reply]]:
    """Asks for rewrites, if there are any; one reply each, in order."""
    answers = (yield Ask((*turn, 0), phrases)) if phrases else ()
    return [answer for answer in answers if isinstance(answer, Reply)]


def answered(turn: tuple[int, int], questions: list[Question]) -> Asking[list[Verdict]]:
    """Asks questions, if there are any; one verdict each, in order."""
    answers = (yield Ask((*turn, 1), questions)) if questions else ()
    return [answer for answer in answers if isinstance(answer, Verdict)]
