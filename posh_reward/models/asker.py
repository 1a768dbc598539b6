"""Ask a model each distinct prompt once; store and count the answers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from posh_reward.models.model import (
    DOUBTFUL,
    Model,
    Prompt,
    awake,
    checked_reply,
    checked_verdict,
    not_grades,
)
from posh_reward.process.locks import at_work
from posh_reward.store import Store
from posh_reward.types import Failure, Reply, Verdict

logger = logging.getLogger(__name__)

READING_VERSION = 2
"""Version of how replies are requested and read, part of store keys and signatures. 2: ``top-20``
counts every token that contains a digit; added tokens not marked as special stay text."""
KEEP_SECONDS = 0.2  # between two writes of a call's answers
ENOUGH = 10  # replies before judging whether a model answers with labels
BLIND = Failure("prompt", "this model does not take images: choose a vision-language model")

A = TypeVar("A", Verdict, Reply)


@dataclass(frozen=True, slots=True)
class AnswerKind(Generic[A]):
    """One way of asking a model, and how its answers are stored."""

    kind: str  # the store's name for such answers
    space: str  # everything the answers depend on besides the prompt
    ask: Callable[..., list[A]]  # prompts, and ``note`` for a model that ``notes``
    check: Callable[[object], A]  # turn an unusable answer into a failed one
    failed: Callable[[Failure], A]
    write: Callable[[A], str]
    read: Callable[[str], A]  # undo write; ValueError or TypeError on anything else


class Keeper(Generic[A]):
    """Store the answers of one call while it lasts, so that a kill costs only the last moment's."""

    def __init__(self, store: Store | None, kind: AnswerKind[A], prompts: Sequence[Prompt]) -> None:
        self._store = store
        self._kind: AnswerKind[A] = kind
        self._prompts = prompts
        self._waiting: dict[str, str] = {}
        self._taken: set[int] = set()
        self._last = time.monotonic()

    def note(self, place: int, answer: object) -> None:
        """Take the answer to one prompt, as in ``Note``; a failed one is not stored."""
        checked = self._kind.check(answer)
        if checked.failure is None and place not in self._taken:
            self._taken.add(place)
            self._waiting[self._prompts[place].key] = self._kind.write(checked)
        if time.monotonic() > self._last + KEEP_SECONDS:
            self.put()

    def put(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if self._store is not None and waiting:
            self._store.put(self._kind.kind, self._kind.space, waiting)
        self._last = time.monotonic()


class Asker:
    """A metric's access to a model: deduplicates, stores, checks and counts answers.

    Without a store nothing is kept between calls: of a training step's twelve thousand questions,
    only one or two repeat earlier ones (``tools.bench.tokens training``).
    """

    def __init__(self, model: Model, store: Store | None = None) -> None:
        self.model = model
        self.store = store
        self._warned = False
        self._recognised = False

    @contextmanager
    def awake(self, prompts: Sequence[object]) -> Iterator[None]:
        """Keep the model awake inside this context, unless there are no prompts."""
        with awake(*[self.model] if prompts else ()):
            yield

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """One distribution over the labels per prompt, in order; failures carry a reason."""
        kind = AnswerKind(
            "verdict",
            f"{self.model.name}|{READING_VERSION}|{'/'.join(labels)}",
            lambda new, **note: self.model.choose(new, labels, **note),
            lambda verdict: checked_verdict(verdict, len(labels)),
            lambda failure: Verdict(None, failure),
            write_verdict,
            read_verdict,
        )
        verdicts = self._answers(prompts, kind)
        self.model.usage.requests += len(prompts)
        self._note(verdicts)
        return verdicts

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """One greedy reply per prompt, in order; a blank one is a failure."""
        kind = AnswerKind(
            "rewrite",
            f"{self.model.name}|{READING_VERSION}|{max_tokens}",
            lambda new, **note: self.model.write(new, max_tokens, **note),
            lambda reply: not_blank(checked_reply(reply)),
            lambda failure: Reply(None, failure),
            lambda reply: json.dumps(reply.text),
            read_reply,
        )
        replies = self._answers(prompts, kind)
        self.model.usage.rewrites += len(prompts)
        return replies

    def _answers(self, prompts: Sequence[Prompt], kind: AnswerKind[A]) -> list[A]:
        """Answers from the store or the model; equal prompts share one, failures are not stored."""
        # Sorted because a model's prefix cache is small: prompts with the same images and prefix
        # must be adjacent to benefit from it.
        distinct = sorted(set(prompts), key=lambda prompt: (prompt.images, prompt))
        answer_of = self._recall(distinct, kind)
        blind = [] if self.model.sees else [each for each in distinct if each.images]
        answer_of |= dict.fromkeys(blind, kind.failed(BLIND))
        new = [each for each in distinct if each not in answer_of]
        if new:
            started = time.perf_counter()
            keeper = Keeper(self.store, kind, new)
            notes = self.store is not None and getattr(self.model, "notes", False)
            try:
                with at_work():
                    self._recognise()
                    answers = kind.ask(new, note=keeper.note) if notes else kind.ask(new)
                for place, answer in enumerate(answers if self.store is not None else ()):
                    keeper.note(place, answer)
            finally:  # even after an interrupt
                keeper.put()
            self.model.usage.seconds += time.perf_counter() - started
            answer_of.update(zip(new, map(kind.check, answers), strict=True))
        self.model.usage.cache_hits += len(prompts) - len(new) - len(blind)
        in_order = [answer_of[each] for each in prompts]
        self.model.usage.count_failures(in_order)
        return in_order

    def _recognise(self) -> None:
        """Let a model compare itself with the one whose answers the store has under its name.

        A server may have another model today, under the same name. Raises ``JudgeError``.
        """
        recognise = getattr(self.model, "recognise", None)
        if self._recognised or self.store is None or recognise is None:
            return
        kept = self.store.get("identity", self.model.name, [""]).get("")
        said = recognise(kept)
        if kept is None:
            self.store.put("identity", self.model.name, {"": said})
        self._recognised = True

    def _recall(self, prompts: Sequence[Prompt], kind: AnswerKind[A]) -> dict[Prompt, A]:
        """Stored answers; an unreadable row counts as missing."""
        if self.store is None:
            return {}
        keys = {each.key: each for each in prompts}
        answers: dict[Prompt, A] = {}
        for key, row in self.store.get(kind.kind, kind.space, list(keys)).items():
            with suppress(ValueError, TypeError):
                answer = kind.check(kind.read(row))
                if answer.failure is None:
                    answers[keys[key]] = answer
        return answers

    def _note(self, verdicts: Sequence[Verdict]) -> None:
        """Count replies without a label, and warn once if most are."""
        usage = self.model.usage
        usage.unparsed += sum(verdict.unparsed for verdict in verdicts)
        usage.doubtful += sum(
            verdict.mass < DOUBTFUL for verdict in verdicts if verdict.probabilities is not None
        )
        reason = not_grades(usage.doubtful / usage.requests) if usage.requests >= ENOUGH else None
        if reason is not None and not self._warned:
            self._warned = True
            logger.warning("%s %s", self.model.name, reason)


def write_verdict(verdict: Verdict) -> str:
    """A verdict as JSON, exact to the last bit."""
    return json.dumps([verdict.probabilities, verdict.unparsed, verdict.mass])


def read_verdict(row: str) -> Verdict:
    probabilities, unparsed, mass = json.loads(row)
    return Verdict(tuple(probabilities), unparsed=unparsed, mass=mass)


def not_blank(reply: Reply) -> Reply:
    """Return the reply if it has any text, otherwise a failed one."""
    if reply.text is not None and not reply.text.strip():
        return Reply(None, Failure("reply", "the model wrote nothing"))
    return reply


def read_reply(row: str) -> Reply:
    """Read a reply's text from JSON; ``ValueError`` if there is none."""
    text = json.loads(row)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"not a reply: {row[:40]!r}")
    return Reply(text)
