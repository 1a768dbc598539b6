"""A language model behind an OpenAI-compatible server, such as ``vllm serve``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import PurePath
from typing import Any, TypeVar

from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError, install_command
from posh_reward.models.model import (
    TOP_TOKENS,
    LabelReading,
    OnAnswer,
    Prompt,
    check_reading,
    ignore_answer,
)
from posh_reward.models.prompt_images import MAX_PIXELS, TOKEN_PIXELS
from posh_reward.models.server import chat_messages, fleet
from posh_reward.models.server.chat_messages import ChatMessages, Content, special_token_failure
from posh_reward.models.server.held_answers import HeldAnswers
from posh_reward.models.server.identity import (
    ABSENT_THINGS,
    PRESENT_THINGS,
    PROBE_QUESTION,
    Identity,
    StartQuestions,
    explain_unfit,
)
from posh_reward.models.server.server_batch import MAX_START_TIMEOUTS, ServerBatch, identify_server
from posh_reward.models.server.server_http import (
    ExchangeError,
    ServerClient,
    TransientError,
    check_url,
    read_key,
    run_apart,
    server_client,
)
from posh_reward.settings import DEFAULT_KEY_VARIABLE, UNCHECKED_VARIABLE
from posh_reward.types import LABELS, Failure, Reply, Usage, Verdict

logger = logging.getLogger(__name__)

THINKING_OFF: Mapping[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
"""Makes Qwen3's template answer at once; vLLM and SGLang forward it."""

RESERVED_FIELDS = {
    "model", "messages", "max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "stream",
}  # fmt: skip
"""Fields of a request that the judge sets itself."""

A = TypeVar("A", Verdict, Reply)
Read = Callable[[Mapping[str, Any]], A]  # a reply's JSON -> answer
T = TypeVar("T")
WAIT_LOG_SECONDS = 10.0  # without a first answer before the wait is logged


class ServerModel:
    """A model behind HTTP, with concurrent requests. Descriptions are sent to ``base_urls``.

    Prompts are sent in order; those with the same prefix or images go to the same server, to
    use its prefix cache. A server that fails is retried after the others. Instances can be pickled;
    the key stays in the environment and is read for each batch.

    Args:
        base_urls: one or more servers of the same model: ``http://localhost:8000/v1``.
        model: its name at the server; None for the only one that the server lists.
        revision: of the model, or its quantisation; only for signatures and stores.
        api_key_env: environment variable with the key; None for servers without one.
        concurrency: most simultaneous prompts per server. It begins with one and gets more as long
            as its answers are quick.
        timeout: seconds for one exchange.
        retries: after transient faults; at most two after timeouts.
        backoff: seconds before the first retry, doubled before each further one.
        reading: top-20 works everywhere, as in the release; labels needs vLLM 0.26 or later.
        labels: False for a server without log-probabilities, which can only write (PROVE, rubrics).
        images: True if the model accepts images and they may be sent, as PNG.
        max_pixels: larger images are shrunk to this before they are sent.
        extra_body: further fields of each request. Pass ``{}`` for a server that refuses
            unknown fields, if its model does not think.

    Raises:
        ConfigError: an argument has an invalid value.
        InputError: unknown reading.
    """

    few_calls = True
    notes = True  # ``choose`` and ``write`` take an ``OnAnswer``

    def __init__(
        self,
        base_urls: str | Sequence[str],
        model: str | None = None,
        *,
        revision: str | None = None,
        api_key_env: str | None = DEFAULT_KEY_VARIABLE,
        concurrency: int = 64,
        timeout: float = 60.0,
        retries: int = 5,
        backoff: float = 0.5,
        reading: LabelReading = "top-20",
        labels: bool = True,
        images: bool = False,
        max_pixels: int = MAX_PIXELS,
        extra_body: Mapping[str, Any] = THINKING_OFF,
    ) -> None:
        self._arguments = {key: value for key, value in locals().items() if key != "self"}
        urls = [base_urls] if isinstance(base_urls, str) else list(base_urls)
        check_reading(reading)
        _check_arguments(self._arguments)
        self.usage = Usage()
        self.sees = images
        self._reading, self._extra = reading, dict(extra_body)
        if model is not None:
            self.model = model
        self._messages = ChatMessages(max_pixels if images else None)
        self._labels = labels
        # After the model: @revision, reading, a digest of ``extra_body``, the cap on images.
        self._options = f"@{revision}" if revision else ""
        self._options += f":{reading}" if labels else ":text"
        if self._extra != THINKING_OFF:
            fields = json.dumps(self._extra, sort_keys=True)
            self._options += f":{hashlib.sha256(fields.encode()).hexdigest()[:8]}"
        if images:
            self._options += f":pixels-{max_pixels}"
        self._pool = fleet.ServerPool([fleet.Server(check_url(url)) for url in urls])
        self._key_env, self._concurrency = api_key_env, concurrency
        self._policy = fleet.RetryPolicy(timeout, retries, backoff, concurrency)
        self._tokens: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
        self._start: StartQuestions | None = None
        self._checked = False
        self._reasons: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        urls = ", ".join(server.url for server in self._pool.servers)
        return f"ServerModel({self._arguments['model']!r} at {urls})"

    @cached_property
    def model(self) -> str:
        """Its name at the server, which is asked for it if none was given."""
        require_client()
        urls = [server.url for server in self._pool.servers]
        return self._run_with_client(lambda client: fleet.find_model(client, urls))

    @property
    def name(self) -> str:
        """E.g. ``server:Qwen/Qwen3-14B:top-20``; a server's path to a file is left out."""
        model = PurePath(self.model).name if self.model.startswith("/") else self.model
        return f"server:{model}{self._options}"

    def choose(
        self, prompts: Sequence[Prompt], labels: Sequence[str], note: OnAnswer = ignore_answer
    ) -> list[Verdict]:
        if not self._labels:
            raise JudgeError(
                f"{self.name} only writes (`labels: false`): use a server that returns "
                "log-probabilities, and leave `labels` out"
            )
        self.wake()
        homes = [self._pool.home(prompt.images or prompt.prefix) for prompt in prompts]
        return self._run_with_client(
            lambda client: self._choose_with(client, prompts, homes, tuple(labels), note)
        )

    def write(
        self, prompts: Sequence[Prompt], max_tokens: int, note: OnAnswer = ignore_answer
    ) -> list[Reply]:
        self.wake()
        options = {"max_tokens": max_tokens, "temperature": 0}
        # These prompts share one short instruction: by prefix they would all go to one server.
        homes = []
        for index, prompt in enumerate(prompts):
            if prompt.images:
                homes.append(self._pool.home(prompt.images))
            else:
                homes.append(index % len(self._pool.servers))
        read = chat_messages.read_reply_text

        def make_failed(failure: Failure) -> Reply:
            return Reply(None, failure)

        return self._run_with_client(
            lambda client: self._ask_all(client, prompts, homes, options, read, make_failed, note)
        )

    def sleep(self) -> None:
        """Do nothing: the server is not ours alone."""

    def wake(self) -> None:
        """Check once that the servers are up, have one model, and that it can judge."""
        if not self._checked:
            require_client()
            _ = self.model  # outside the event loop, which ``_run_with_client`` makes
            faults = self._run_with_client(self._find_faults)
            fleet.validate_servers(self._pool.servers, faults, self._reading)
            self._checked = True

    def recognise(self, kept: str | None) -> str:
        """Return the marks of this model that others of its name lack, as text for a store.

        Args:
            kept: the text of an earlier run; None if there is none.

        Raises:
            JudgeError: this run's model is another one.
        """
        self.wake()
        identity = self._pool.identity or Identity(None, frozenset())
        graded = not os.environ.get(UNCHECKED_VARIABLE)
        with suppress(ValueError, TypeError):
            if kept and (reason := Identity.from_json(kept).other_run(identity, graded)):
                raise JudgeError(
                    f"the store has answers of another model under the name {self.name}: {reason}. "
                    "Tell this one apart with `revision`, or use another store and another output"
                )
        return identity.to_json()

    def close(self) -> None:
        """Do nothing: no connection stays open between batches."""

    def _run_with_client(self, work: Callable[[ServerClient], Awaitable[T]]) -> T:
        async def work_with_client() -> T:
            urls = [server.url for server in self._pool.servers]
            key = read_key(self._key_env)
            async with server_client(key, self._policy.timeout, urls) as client:
                return await work(client)

        return run_apart(work_with_client)

    async def _choose_with(
        self,
        client: ServerClient,
        prompts: Sequence[Prompt],
        homes: Sequence[int],
        labels: tuple[str, ...],
        note: OnAnswer,
    ) -> list[Verdict]:
        def make_failed(failure: Failure) -> Verdict:
            return Verdict(None, failure)

        error = ExchangeError("no server was asked")
        for server in self._pool.order(0) or self._pool.servers:
            try:
                options, read = await self._prepare_question(client, server.url, labels)
            except TransientError as down:
                error = down
            except ExchangeError as refusal:
                error = refusal
                break
            else:
                return await self._ask_all(client, prompts, homes, options, read, make_failed, note)
        self._log_once(error)
        return [make_failed(error.failure)] * len(prompts)

    async def _prepare_question(
        self, client: ServerClient, url: str, labels: tuple[str, ...]
    ) -> tuple[dict[str, Any], Read[Verdict]]:
        """The request fields for a distribution over labels, and the reader of the replies.

        Temperature 1 and no nucleus, so that servers which report log-probabilities as processed
        by the sampler report the model's own. The sampled token does not matter.
        """
        options: dict[str, Any] = {"max_tokens": 1, "temperature": 1, "top_p": 1, "logprobs": True}
        if self._reading == "top-20":
            options["top_logprobs"] = TOP_TOKENS
            return options, partial(chat_messages.read_top_tokens, labels=labels)
        if labels not in self._tokens:
            self._tokens[labels] = await fleet.label_tokens(client, url, self.model, labels)
        tokens = self._tokens[labels]
        options["logprob_token_ids"] = list(chain.from_iterable(tokens))
        options["return_tokens_as_token_ids"] = True
        return options, partial(chat_messages.read_label_ids, tokens=tokens)

    async def _ask_all(
        self,
        client: ServerClient,
        prompts: Sequence[Prompt],
        homes: Sequence[int],
        options: Mapping[str, Any],
        read: Read[A],
        make_failed: Callable[[Failure], A],
        note: OnAnswer,
    ) -> list[A]:
        """Ask all prompts; those whose answers do not count once more, at other servers."""
        assert self._start is not None
        graded = self._start.graded and not os.environ.get(UNCHECKED_VARIABLE)
        start = replace(self._start, graded=graded)
        probe = self._build_body(PROBE_QUESTION.format(PRESENT_THINGS[0]), {"max_tokens": 1})
        batch = ServerBatch(client, self._pool, self._policy, probe)
        answers: dict[int, A] = {}
        held = HeldAnswers(batch, self._pool, start, lambda place: note(place, answers[place]))
        await batch.start(start)

        async def work_off(queue: Iterator[int], home: int) -> None:
            for index in queue:
                prompt = prompts[index]
                content = special_token_failure(prompt.text) or self._messages.content(prompt)
                if isinstance(content, Failure):
                    answers[index] = make_failed(content)
                    continue
                try:
                    server, reply = await batch.ask(home, self._build_body(content, options))
                    chat_messages.count_tokens(reply, self.usage)
                    answers[index] = read(reply)
                except ExchangeError as error:
                    self._log_once(error)
                    answers[index] = make_failed(error.failure)
                else:
                    await held.hold(server, index)

        # A server's workers share one iterator, so its prompts start in order and those of one
        # prefix are close in time: its prefix cache still has them.
        async def work_all(indices: Collection[int]) -> None:
            workers: list[Awaitable[None]] = []
            for home in range(len(self._pool.servers)):
                own = [index for index in indices if homes[index] == home]
                queue = iter(own)
                for _ in range(min(self._concurrency, len(own))):
                    workers.append(work_off(queue, home))
            await asyncio.gather(*workers)

        indices: Collection[int] = range(len(prompts))
        for _ in self._pool.servers:  # each time without those that lost answers
            await work_all(indices)
            lost = await held.settle()
            for index, error in lost.items():
                self._log_once(error)
                answers[index] = make_failed(error.failure)
            indices = lost
            if not lost or not self._pool.order(0):
                break
        return [answers[index] for index in range(len(prompts))]

    def _build_body(self, content: Content, options: Mapping[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": content}]
        return {**self._extra, "model": self.model, "messages": messages, **options}

    def _log_once(self, error: ExchangeError) -> None:
        """Log each reason once, with the server's own message."""
        if error.reason not in self._reasons:
            self._reasons.add(error.reason)
            logger.warning("%s: %s", self.name, error)

    async def _find_faults(self, client: ServerClient) -> list[ExchangeError | None]:
        urls = [server.url for server in self._pool.servers]

        async def log_wait() -> None:
            await asyncio.sleep(WAIT_LOG_SECONDS)
            logger.warning(
                "waiting for the judge's first answer at %s: %g s at most (`timeout`)",
                *(", ".join(urls), self._policy.timeout),
            )

        waiting = asyncio.create_task(log_wait())
        try:
            checks = [self._find_fault(client, server) for server in self._pool.servers]
            return list(await asyncio.gather(*checks))
        finally:
            waiting.cancel()

    async def _find_fault(self, client: ServerClient, server: fleet.Server) -> ExchangeError | None:
        """The reason why a server cannot be used; None after noting its identity."""
        try:
            await fleet.check_model(client, server.url, self.model)
            self._start = await self._start_questions(client, server.url)
            server.identity, answers = await identify_server(
                client, server.url, self._policy, self._start
            )
            reason = explain_unfit(server.url, answers) if self._start.graded else None
            if reason is not None and not os.environ.get(UNCHECKED_VARIABLE):
                raise JudgeError(reason)
            if self.sees:
                await self._check_sight(client, server.url)
        except ExchangeError as error:
            return error
        return None

    async def _check_sight(self, client: ServerClient, url: str) -> None:
        """Raise ``ExchangeError`` if a server does not answer about an image."""
        content = self._messages.content(fleet.make_image_probe())
        assert not isinstance(content, Failure), content
        batch = ServerBatch(
            client, fleet.ServerPool([fleet.Server(url)]), self._policy, timeouts=MAX_START_TIMEOUTS
        )
        try:
            await batch.ask(0, self._build_body(content, {"max_tokens": 1, "temperature": 0}))
        except ExchangeError as error:
            detail = error.detail or error.reason
            raise ExchangeError(fleet.NO_SIGHT, detail, error.status) from None

    async def _start_questions(self, client: ServerClient, url: str) -> StartQuestions:
        if not self._labels:
            options = {"max_tokens": 16, "temperature": 0}
            body = self._build_body(PROBE_QUESTION.format(PRESENT_THINGS[0]), options)
            return StartQuestions((body,), chat_messages.read_reply_text, graded=False)
        try:
            options, read = await self._prepare_question(client, url, LABELS)
        except ExchangeError as error:
            if error.reason != fleet.NO_TOKEN:
                raise
            # A scale without tokens fails only its own judgments.
            body = self._build_body(PROBE_QUESTION.format(PRESENT_THINGS[0]), {"max_tokens": 1})
            return StartQuestions((body,), lambda reply: Reply(None), graded=False)
        words = (*PRESENT_THINGS, *ABSENT_THINGS)
        bodies = tuple(self._build_body(PROBE_QUESTION.format(word), options) for word in words)
        return StartQuestions(bodies, read, graded=True)


def require_client() -> None:
    """Raise ``MissingDependencyError`` without the HTTP client."""
    if find_spec("httpx") is None:
        raise MissingDependencyError(f"the server judge needs httpx: {install_command('server')}")


def _check_arguments(options: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for invalid values, without repeating a key passed by mistake."""
    variable, extra = options["api_key_env"], options["extra_body"]
    if variable is not None and not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):
        raise ConfigError("api_key_env: use the name of an environment variable, not the key")
    try:
        json.dumps(extra, allow_nan=False)
        is_json = True
    except (TypeError, ValueError, RecursionError):
        is_json = False
    timeout, backoff, pixels = (options[key] for key in ("timeout", "backoff", "max_pixels"))
    ours = RESERVED_FIELDS.intersection(extra)
    for fault, applies in {
        "base_urls: list at least one address": not options["base_urls"],
        "model: name it as the server does": options["model"] == "",
        f"concurrency: {options['concurrency']} is less than 1": options["concurrency"] < 1,
        f"timeout: {timeout} is not a positive number of seconds": not timeout > 0,
        f"retries: {options['retries']} is negative": options["retries"] < 0,
        f"backoff: {backoff} is not a number of seconds": not 0 <= backoff < math.inf,
        f"max_pixels: {pixels} is less than one token of an image, {TOKEN_PIXELS}": pixels
        < TOKEN_PIXELS,
        f"extra_body: leave out {', '.join(sorted(ours))}, which the judge sets": bool(ours),
        "extra_body: use only JSON values": not is_json,
    }.items():
        if applies:
            raise ConfigError(fault)
