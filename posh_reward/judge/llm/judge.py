"""A judge that asks a language model: each distinct prompt once, and none that is answered."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from posh_reward.errors import InputError
from posh_reward.judge.llm.base import Model
from posh_reward.judge.render import Prompt, check_preset, prompt, rewrite_prompt
from posh_reward.store import Store
from posh_reward.types import Request, Rewrite, RewriteRequest, Usage, Verdict

logger = logging.getLogger(__name__)

REWRITE_TOKENS = 20
"""Longest rewrite, in tokens (paper, A.1.4)."""
READING_VERSION = 1
"""Of how replies are asked for and read. Raise it when that changes: the store keeps them by it."""
DOUBTFUL = 0.5
"""A reply is doubtful if less than this was a label."""
ENOUGH = 100
"""Replies after which it can be told whether a model takes up the questions."""

A = TypeVar("A", Verdict, Rewrite)


@dataclass(frozen=True, slots=True)
class Asking(Generic[A]):
    """One way of asking a model, and how its answers are kept."""

    kind: str
    """What the store calls such answers."""
    space: str
    """All that they depend on besides the prompt."""
    ask: Callable[[Sequence[Prompt]], list[A]]
    write: Callable[[A], str]
    read: Callable[[str], A]
    """Undoes ``write``; raises ``ValueError`` or ``TypeError`` at what it did not write."""


class PromptJudge:
    """Renders requests to prompts, and keeps what the model has said in a store.

    Without one nothing is kept from call to call: of twelve thousand questions of a training step
    one or two were asked before (``tools/bench/training_cost.py``). Rewrites, which do come back,
    are remembered for any judge by ``metric.lockstep.Rewriter``.

    Args:
        model: who answers.
        preset: wording of the prompts; see ``judge.render.PRESET``.
        store: where answers are kept and looked up, across runs and processes.

    Raises:
        InputError: there is no such preset.
    """

    def __init__(self, model: Model, preset: str = "released", store: Store | None = None) -> None:
        self.model = model
        self.preset = check_preset(preset)
        self._store = store
        self._warned = False

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def usage(self) -> Usage:
        """What the judge was asked, and what that cost the model."""
        return self.model.usage

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict per request, in order; a failure is a verdict with its reason."""
        labels = one_scale(requests)
        prompts = [prompt(request, self.preset) for request in requests]
        asking = Asking(
            "verdict",
            f"{self.name}|{READING_VERSION}|{'/'.join(labels)}",
            lambda new: self.model.choose(new, labels),
            write_verdict,
            read_verdict,
        )
        verdicts = self._answers(prompts, asking)
        self.usage.requests += len(prompts)
        self._note(verdicts)
        return verdicts

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Rewrite]:
        """A fluent noun phrase for each raw identifier, in order."""
        prompts = [rewrite_prompt(request, self.preset) for request in requests]
        asking = Asking(
            "rewrite",
            f"{self.name}|{READING_VERSION}",
            lambda new: [not_blank(each) for each in self.model.write(new, REWRITE_TOKENS)],
            write_rewrite,
            read_rewrite,
        )
        rewrites = self._answers(prompts, asking)
        self.usage.rewrites += len(prompts)
        return rewrites

    def sleep(self) -> None:
        """The model's."""
        self.model.sleep()

    def wake(self) -> None:
        """The model's."""
        self.model.wake()

    def close(self) -> None:
        """The model's."""
        self.model.close()

    def keep_in(self, store: Store) -> None:
        """Keeps answers in ``store`` from now on, if they are not kept in one already."""
        self._store = self._store or store

    def _answers(self, prompts: Sequence[Prompt], asking: Asking[A]) -> list[A]:
        """Answers from the store or the model; equal prompts share one, failures are not kept.

        Prompts go to the model in alphabetical order: those with equal beginnings stand
        together, and the order of the requests does not matter.
        """
        distinct = sorted(set(prompts))
        known = self._recall(distinct, asking)
        new = [each for each in distinct if each not in known]
        if new:
            started = time.perf_counter()
            fresh = dict(zip(new, asking.ask(new), strict=True))
            self.usage.seconds += time.perf_counter() - started
            self._keep(fresh, asking)
            known.update(fresh)
        self.usage.cache_hits += len(prompts) - len(new)
        answers = [known[each] for each in prompts]
        reasons = Counter(answer.failure for answer in answers if answer.failure is not None)
        for reason, count in reasons.items():
            self.usage.failures[reason] = self.usage.failures.get(reason, 0) + count
        return answers

    def _recall(self, prompts: Sequence[Prompt], asking: Asking[A]) -> dict[Prompt, A]:
        """What the store has of them; what it cannot be read from is asked for again."""
        if self._store is None:
            return {}
        texts = {each.text: each for each in prompts}
        known: dict[Prompt, A] = {}
        for text, written in self._store.get(asking.kind, asking.space, list(texts)).items():
            with suppress(ValueError, TypeError):
                known[texts[text]] = asking.read(written)
        return known

    def _keep(self, answers: Mapping[Prompt, A], asking: Asking[A]) -> None:
        if self._store is not None:
            items = {p.text: asking.write(a) for p, a in answers.items() if a.failure is None}
            self._store.put(asking.kind, asking.space, items)

    def _note(self, verdicts: Sequence[Verdict]) -> None:
        """Counts replies that are no label, and says once if they are most of the replies."""
        usage = self.usage
        usage.unparsed += sum(verdict.unparsed for verdict in verdicts)
        usage.doubtful += sum(
            verdict.mass < DOUBTFUL for verdict in verdicts if verdict.probabilities is not None
        )
        if not self._warned and usage.requests >= ENOUGH and usage.doubtful > usage.requests / 2:
            self._warned = True
            logger.warning(
                "%s seldom answers with a label: in %d of %d replies less than half the "
                "probability is on one. Is it instruction-tuned, and is thinking off?",
                self.name,
                usage.doubtful,
                usage.requests,
            )


def one_scale(requests: Sequence[Request]) -> tuple[str, ...]:
    """The labels that all requests share.

    Raises:
        InputError: they do not share them.
    """
    scales = {request.scale for request in requests}
    if len(scales) > 1:
        raise InputError(f"one call has requests with {len(scales)} scales: ask for each apart")
    return scales.pop() if scales else ()


def write_verdict(verdict: Verdict) -> str:
    """A verdict as JSON, every bit of its numbers kept."""
    return json.dumps([verdict.probabilities, verdict.unparsed, verdict.mass])


def read_verdict(written: str) -> Verdict:
    """Undoes ``write_verdict``."""
    probabilities, unparsed, mass = json.loads(written)
    return Verdict(tuple(probabilities), unparsed=unparsed, mass=mass)


def not_blank(rewrite: Rewrite) -> Rewrite:
    """A phrase that a question can be asked about, or a failure."""
    if rewrite.text is not None and not rewrite.text.strip():
        return Rewrite(None, "the model wrote nothing")
    return rewrite


def write_rewrite(rewrite: Rewrite) -> str:
    """A rewrite as JSON."""
    return json.dumps(rewrite.text)


def read_rewrite(written: str) -> Rewrite:
    """Undoes ``write_rewrite``.

    Raises:
        ValueError: it wrote no such thing.
    """
    text = json.loads(written)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"no rewrite: {written[:40]!r}")
    return Rewrite(text)
