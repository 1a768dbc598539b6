"""Candidate names made fluent by the judge, each phrase once (paper, A.1.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from posh_reward.models.model import check_reply
from posh_reward.posh.judge import Judge, find_base_judge
from posh_reward.posh.loose_words import find_content_words
from posh_reward.settings import shorten
from posh_reward.types import Phrase, Reply

logger = logging.getLogger(__name__)

MIN_COUNTED_REWRITES = 10  # before it is judged whether rewrites keep to their phrases
MAX_UNRELATED_SHARE = 0.1  # of rewrites that share no word with their phrase; above, it is said


class Rewriter:
    """A judge's rewrites, cached by text, since they do not depend on the descriptions.

    Beyond ``capacity`` phrases the least recently used one is dropped, so that phrases of
    references outlive those of many steps' generations.
    """

    def __init__(self, judge: Judge, capacity: int = 100_000) -> None:
        self._judge = judge
        self._capacity = capacity
        self._cache: dict[Phrase, Reply] = {}
        self._rewritten = self._unrelated = 0
        self._warned = False

    def __call__(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """One rewrite per phrase, in order; failures are not cached."""
        distinct = dict.fromkeys(phrases)
        new = [phrase for phrase in distinct if phrase not in self._cache]
        fresh: dict[Phrase, Reply] = {}
        if new:
            replies = map(check_reply, self._judge.rewrite(new))
            fresh = dict(zip(new, replies, strict=True))
        self._count_rewrites(fresh)
        # A dict keeps the order of insertion. Used phrases are taken out and put back at the end,
        # so the first key is the least recently used.
        answers: dict[Phrase, Reply] = {}
        for phrase in distinct:
            answer = fresh[phrase] if phrase in fresh else self._cache.pop(phrase)
            answers[phrase] = answer
            if answer.text is not None:
                self._cache[phrase] = answer
        while len(self._cache) > self._capacity:
            del self._cache[next(iter(self._cache))]
        return [answers[phrase] for phrase in phrases]

    def _count_rewrites(self, fresh: Mapping[Phrase, Reply]) -> None:
        """Count rewrites about something else than their phrase; warn once if they are many."""
        about_else: list[tuple[Phrase, str]] = []
        for phrase, reply in fresh.items():
            if reply.text is not None and shares_no_word(phrase.text, reply.text):
                about_else.append((phrase, reply.text))
        self._rewritten += len(fresh)
        self._unrelated += len(about_else)
        find_base_judge(self._judge).usage.unrelated_rewrites += len(about_else)
        if self._warned or not about_else or self._rewritten < MIN_COUNTED_REWRITES:
            return
        if self._unrelated > MAX_UNRELATED_SHARE * self._rewritten:
            self._warned = True
            phrase, text = about_else[0]
            logger.warning(
                "%s: %d of %d rewrites share no word with their phrase (%r became %s), and are "
                "asked about all the same: choose a larger model",
                self._judge.name, self._unrelated, self._rewritten, phrase.text, shorten(text),
            )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}


def shares_no_word(phrase: str, rewrite: str) -> bool:
    """Return True if no content word of a phrase is in its rewrite in any form."""
    from posh_reward.embedded.english.word_forms import lacks_word

    words = [match[0] for match in find_content_words(phrase)]
    return bool(words) and all(lacks_word(rewrite, word) for word in words)
