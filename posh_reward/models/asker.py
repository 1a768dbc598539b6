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
    DOUBTFUL_MASS,
    Model,
    Prompt,
    check_reply,
    check_verdict,
    explain_doubtful_replies,
    keep_awake,
)
from posh_reward.process.locks import at_work
from posh_reward.store import Store
from posh_reward.types import Failure, Reply, Verdict

logger = logging.getLogger(__name__)

READING_VERSION = 2
"""Version of how replies are requested and read, part of store keys and signatures. 2: ``top-20``
counts every token that contains a digit; added tokens not marked as special stay text."""
WRITE_INTERVAL_SECONDS = 0.2  # between two writes of a call's answers
MIN_REPLIES_FOR_WARNING = 10  # before judging whether a model answers with labels
NO_IMAGES_ACCEPTED = Failure(
    "prompt", "this model does not take images: choose a vision-language model"
)

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


class AnswerWriter(Generic[A]):
    """Store the answers of one call while it lasts, so that a kill costs only the last moment's."""

    def __init__(self, store: Store | None, kind: AnswerKind[A], prompts: Sequence[Prompt]) -> None:
        self._store = store
        self._kind: AnswerKind[A] = kind
        self._prompts = prompts
        self._waiting: dict[str, str] = {}
        self._taken: set[int] = set()
        self._last_write = time.monotonic()

    def add_answer(self, place: int, answer: object) -> None:
        """Take the answer to one prompt, as an ``OnAnswer`` does; a failed one is not stored."""
        checked = self._kind.check(answer)
        if checked.failure is None and place not in self._taken:
            self._taken.add(place)
            self._waiting[self._prompts[place].key] = self._kind.write(checked)
        if time.monotonic() > self._last_write + WRITE_INTERVAL_SECONDS:
            self.write_waiting()

    def write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if self._store is not None and waiting:
            self._store.put(self._kind.kind, self._kind.space, waiting)
        self._last_write = time.monotonic()


class CachingModel:
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
        models = [self.model] if prompts else []
        with keep_awake(*models):
            yield

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """One distribution over the labels per prompt, in order; failures carry a reason."""
        kind = AnswerKind(
            "verdict",
            f"{self.model.name}|{READING_VERSION}|{'/'.join(labels)}",
            lambda new, **note: self.model.choose(new, labels, **note),
            lambda verdict: check_verdict(verdict, len(labels)),
            lambda failure: Verdict(None, failure),
            write_verdict,
            read_verdict,
        )
        verdicts = self._find_answers(prompts, kind)
        self.model.usage.requests += len(prompts)
        self._count_unusable(verdicts)
        return verdicts

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """One greedy reply per prompt, in order; a blank one is a failure."""
        kind = AnswerKind(
            "rewrite",
            f"{self.model.name}|{READING_VERSION}|{max_tokens}",
            lambda new, **note: self.model.write(new, max_tokens, **note),
            lambda reply: not_blank(check_reply(reply)),
            lambda failure: Reply(None, failure),
            lambda reply: json.dumps(reply.text),
            read_reply,
        )
        replies = self._find_answers(prompts, kind)
        self.model.usage.rewrites += len(prompts)
        return replies

    def _find_answers(self, prompts: Sequence[Prompt], kind: AnswerKind[A]) -> list[A]:
        """Answers from the store or the model; equal prompts share one, failures are not stored."""
        # Sorted because a model's prefix cache is small: prompts with the same images and prefix
        # must be adjacent to benefit from it.
        distinct = sorted(set(prompts), key=lambda prompt: (prompt.images, prompt))
        answers = self._read_stored(distinct, kind)
        blind: list[Prompt] = []
        if not self.model.sees:
            blind = [prompt for prompt in distinct if prompt.images]
        answers |= dict.fromkeys(blind, kind.failed(NO_IMAGES_ACCEPTED))
        new = [prompt for prompt in distinct if prompt not in answers]
        if new:
            answers.update(zip(new, self._ask_model(new, kind), strict=True))
        self.model.usage.cache_hits += len(prompts) - len(new) - len(blind)
        in_order = [answers[prompt] for prompt in prompts]
        self.model.usage.count_failures(in_order)
        return in_order

    def _ask_model(self, prompts: Sequence[Prompt], kind: AnswerKind[A]) -> list[A]:
        """The model's answers, checked; those it gave before an interrupt are stored, too."""
        started = time.perf_counter()
        writer = AnswerWriter(self.store, kind, prompts)
        try:
            with at_work():
                self._check_identity()
                if self.store is not None and getattr(self.model, "notes", False):
                    answers = kind.ask(prompts, note=writer.add_answer)
                else:
                    answers = kind.ask(prompts)
            if self.store is not None:
                for place, answer in enumerate(answers):
                    writer.add_answer(place, answer)
        finally:  # even after an interrupt
            writer.write_waiting()
        self.model.usage.seconds += time.perf_counter() - started
        return list(map(kind.check, answers))

    def _check_identity(self) -> None:
        """Let a model compare itself with the one whose answers the store has under its name.

        A server may have another model today, under the same name. Raises ``JudgeError``.
        """
        recognise = getattr(self.model, "recognise", None)
        if self._recognised or self.store is None or recognise is None:
            return
        kept = self.store.get("identity", self.model.name, [""]).get("")
        identity = recognise(kept)
        if kept is None:
            self.store.put("identity", self.model.name, {"": identity})
        self._recognised = True

    def _read_stored(self, prompts: Sequence[Prompt], kind: AnswerKind[A]) -> dict[Prompt, A]:
        """Stored answers; an unreadable row counts as missing."""
        if self.store is None:
            return {}
        by_key = {prompt.key: prompt for prompt in prompts}
        answers: dict[Prompt, A] = {}
        for key, row in self.store.get(kind.kind, kind.space, list(by_key)).items():
            with suppress(ValueError, TypeError):
                answer = kind.check(kind.read(row))
                if answer.failure is None:
                    answers[by_key[key]] = answer
        return answers

    def _count_unusable(self, verdicts: Sequence[Verdict]) -> None:
        """Count replies without a label, and warn once if most are."""
        usage = self.model.usage
        for verdict in verdicts:
            usage.unparsed += verdict.unparsed
            if verdict.probabilities is not None and verdict.mass < DOUBTFUL_MASS:
                usage.doubtful += 1
        if self._warned or usage.requests < MIN_REPLIES_FOR_WARNING:
            return
        reason = explain_doubtful_replies(usage.doubtful / usage.requests)
        if reason is not None:
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
