"""A language model behind an OpenAI-compatible server, such as ``vllm serve``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.models.labels import TOP, LabelReading, check_reading
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import MAX_PIXELS, TOKEN
from posh_reward.models.server import chat_messages, startup
from posh_reward.models.server.addresses import check_url
from posh_reward.models.server.chat_messages import ChatMessages, Content
from posh_reward.models.server.fleet import Fleet, Patience, ServerBatch
from posh_reward.models.server.server_http import (
    ExchangeError,
    ServerClient,
    read_key,
    run_apart,
    server_client,
)
from posh_reward.models.server.special_tokens import SpecialTokens
from posh_reward.types import LABELS, Failure, Reply, Usage, Verdict

logger = logging.getLogger(__name__)

THINKING_OFF: Mapping[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
"""Makes Qwen3's template answer at once; vLLM and SGLang pass it on."""

OURS = {
    "model", "messages", "max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "stream",
}  # fmt: skip
"""Fields of a request that the judge sets itself."""

A = TypeVar("A", Verdict, Reply)


class ServerModel:
    """A model behind HTTP, many prompts at once. Descriptions leave this machine (``base_urls``).

    Prompts are sent in their order, those of one prefix, or about the same images, to one
    server, so that its prefix cache serves them. A server that fails is asked again, later than the
    others. The object pickles; the key is read from the environment wherever it is used, and stays
    there.

    Args:
        base_urls: addresses of servers of one and the same model: ``http://localhost:8000/v1``.
        model: its name at the server.
        revision: the model's, or its quantisation; only for signatures and stores.
        api_key_env: environment variable that holds the key; None for servers without.
        concurrency: prompts at once at each server.
        timeout: seconds for one exchange.
        retries: how often an exchange is tried again after a fault that may pass; after a
            timeout at most twice.
        backoff: seconds before the first retry, doubled before each next one.
        reading: top-20 as the release reads, everywhere; labels needs vLLM 0.26 or later.
        labels: False for a server without log-probabilities, which may then write (PROVE, rubrics),
            but not choose among labels.
        images: whether its model sees, and images may leave this machine. They are sent as PNG.
        max_pixels: larger images are shrunk to this before they are sent.
        extra_body: further fields of each request. Pass ``{}`` for a server that refuses
            unknown fields, if its model does not think.

    Raises:
        ConfigError: an argument has a value that cannot be used.
        InputError: there is no such reading.
    """

    few_calls = True

    def __init__(
        self,
        base_urls: str | Sequence[str],
        model: str,
        *,
        revision: str | None = None,
        api_key_env: str | None = "POSH_JUDGE_API_KEY",
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
        _check(self._arguments)
        self.usage = Usage()
        self.sees = images
        self._model, self._reading, self._extra = model, reading, dict(extra_body)
        self._messages = ChatMessages(max_pixels if images else None)
        self._labels = labels
        read = reading if labels else "text"
        self._name = f"server:{model}{f'@{revision}' if revision else ''}:{read}"
        if self._extra != THINKING_OFF:
            fields = json.dumps(self._extra, sort_keys=True)
            self._name += f":{hashlib.sha256(fields.encode()).hexdigest()[:8]}"
        self._name += f":pixels-{max_pixels}" if images else ""
        self._fleet = Fleet([check_url(url) for url in urls])
        self._key_env, self._concurrency = api_key_env, concurrency
        self._patience = Patience(timeout, retries, backoff)
        self._specials = SpecialTokens(model)
        self._tokens: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
        self._checked = False
        self._reasons: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        urls = ", ".join(server.url for server in self._fleet.servers)
        return f"ServerModel({self._name!r} at {urls})"

    @property
    def name(self) -> str:
        """``server:model@revision:reading``, a digest of an ``extra_body``, the cap on images."""
        return self._name

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """See ``Model.choose``. Raises ``JudgeError`` as ``wake`` does."""
        if not self._labels:
            raise JudgeError(f"{self._name} only writes (`labels: false`): {startup.LABELS_NEEDED}")
        self.wake()
        homes = [self._fleet.home(prompt.images or prompt.prefix) for prompt in prompts]
        return run_apart(lambda: self._choose(prompts, homes, tuple(labels)))

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """See ``Model.write``. Raises ``JudgeError`` as ``wake`` does."""
        self.wake()
        how = {"max_tokens": max_tokens, "temperature": 0}
        # Texts share one short instruction: dealt by prefix they would all go to one server.
        homes = [
            self._fleet.home(prompt.images) if prompt.images else index % len(self._fleet.servers)
            for index, prompt in enumerate(prompts)
        ]

        async def write() -> list[Reply]:
            async with self._client() as client:
                return await self._all(
                    client,
                    prompts,
                    homes,
                    how,
                    chat_messages.read_text,
                    lambda why: Reply(None, why),
                )

        return run_apart(write)

    def sleep(self) -> None:
        """Nothing to free: others use the server, too."""

    def wake(self) -> None:
        """Check once that the servers are there, have the model, and give log-probabilities.

        Raises:
            JudgeError: none is there, or one has another model or gives no log-probabilities;
                the message names its address and the remedy.
            ConfigError: the key is malformed, or the environment's proxy or certificates are.
            MissingDependencyError: the HTTP client is not installed.
        """
        if not self._checked:
            if find_spec("httpx") is None:
                raise MissingDependencyError(
                    "the server judge needs httpx: pip install 'posh-reward[server]'"
                )
            startup.refuse_unusable(self._fleet.servers, run_apart(self._faults), self._reading)
            self._checked = True

    def close(self) -> None:
        """Nothing to close: no connection is open between two batches."""

    async def _choose(
        self, prompts: Sequence[Prompt], homes: Sequence[int], labels: tuple[str, ...]
    ) -> list[Verdict]:
        async with self._client() as client:
            try:
                how, read = await self._question(client, self._fleet.order(0)[0].url, labels)
            except ExchangeError as error:
                self._say(error)
                return [Verdict(None, error.failure) for _ in prompts]
            return await self._all(
                client, prompts, homes, how, read, lambda why: Verdict(None, why)
            )

    async def _question(
        self, client: ServerClient, url: str, labels: tuple[str, ...]
    ) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], Verdict]]:
        """The fields that ask for a distribution over labels, and the reader of the replies.

        Temperature 1 and no nucleus, so that servers which give log-probabilities as processed
        by the sampler give the model's own; which token is drawn does not matter.
        """
        how: dict[str, Any] = {"max_tokens": 1, "temperature": 1, "top_p": 1, "logprobs": True}
        if self._reading == "top-20":
            return {**how, "top_logprobs": TOP}, partial(chat_messages.read_top, labels=labels)
        if labels not in self._tokens:
            self._tokens[labels] = await startup.label_tokens(client, url, self._model, labels)
        tokens = self._tokens[labels]
        label_ids = [i for ids in tokens for i in ids]
        how = {**how, "logprob_token_ids": label_ids, "return_tokens_as_token_ids": True}
        return how, partial(chat_messages.read_ids, tokens=tokens)

    async def _all(
        self,
        client: ServerClient,
        prompts: Sequence[Prompt],
        homes: Sequence[int],
        how: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], A],
        fail: Callable[[Failure], A],
    ) -> list[A]:
        """Ask for all; each server's prompts in order, ``concurrency`` of them at once."""
        batch = ServerBatch(
            client, self._fleet, self._patience, self._body(startup.PROBE, {"max_tokens": 1})
        )
        await batch.start()
        texts = [prompt.text for prompt in prompts]
        await self._specials.learn(client, self._fleet.order(0)[0].url, texts)
        answers: dict[int, A] = {}

        # The workers of a server share one iterator, so its prompts start in order and those of one
        # prefix are close together in time: its prefix cache still has them.
        async def work(queue: Any, home: int) -> None:
            for index in queue:
                unfit = self._specials.failure(texts[index])
                content = unfit or self._messages.content(prompts[index])
                if isinstance(content, Failure):
                    answers[index] = fail(content)
                    continue
                try:
                    reply = await batch.ask(home, self._body(content, how))
                    chat_messages.count_tokens(reply, self.usage)
                    answers[index] = read(reply)
                except ExchangeError as error:
                    self._say(error)
                    answers[index] = fail(error.failure)

        workers: list[Awaitable[None]] = []
        for home in range(len(self._fleet.servers)):
            mine = [index for index, where in enumerate(homes) if where == home]
            queue = iter(mine)
            workers += [work(queue, home) for _ in range(min(self._concurrency, len(mine)))]
        await asyncio.gather(*workers)
        return [answers[index] for index in range(len(prompts))]

    def _body(self, content: Content, how: Mapping[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": content}]
        return {**self._extra, "model": self._model, "messages": messages, **how}

    def _client(self) -> AbstractAsyncContextManager[ServerClient]:
        urls = [server.url for server in self._fleet.servers]
        return server_client(read_key(self._key_env), self._patience.timeout, urls)

    def _say(self, error: ExchangeError) -> None:
        """Log each reason once, with the server's own words."""
        if error.reason not in self._reasons:
            self._reasons.add(error.reason)
            logger.warning("%s: %s", self._name, error)

    async def _faults(self) -> list[ExchangeError | None]:
        urls = [server.url for server in self._fleet.servers]

        async def log_wait() -> None:
            await asyncio.sleep(startup.QUIET_SECONDS)
            logger.warning(
                "waiting for a first answer of the judge at %s: %g s at most (`timeout`)",
                *(", ".join(urls), self._patience.timeout),
            )

        async with self._client() as client:
            waiting = asyncio.create_task(log_wait())
            try:
                return list(await asyncio.gather(*(self._fault(client, url) for url in urls)))
            finally:
                waiting.cancel()

    async def _fault(self, client: ServerClient, url: str) -> ExchangeError | None:
        try:
            await startup.check_model(client, url, self._model)
            how: dict[str, Any] = {"max_tokens": 16, "temperature": 0}
            read: Callable[[Mapping[str, Any]], object] = chat_messages.read_text
            if self._labels:
                how, read = await self._question(client, url, LABELS)
            body = self._body(startup.PROBE, how)
            # Two timeouts are enough here: three, and a sign of life, would be four minutes.
            batch = ServerBatch(client, Fleet([url]), self._patience, None, timeouts=2)
            read(await batch.ask(0, body))
            if self.sees:
                content = self._messages.content(startup.image_probe())
                assert not isinstance(content, Failure), content
                await startup.check_sight(batch.ask(0, self._body(content, how)))
        except ExchangeError as error:
            # A scale without tokens fails its own judgments only.
            return None if error.reason == startup.NO_TOKEN else error
        return None


def _check(options: Mapping[str, Any]) -> None:
    """Refuse values that cannot be used, a key in place of its variable's name without its text.

    Raises:
        ConfigError: the message names the argument and the value.
    """
    variable, extra = options["api_key_env"], options["extra_body"]
    if variable is not None and not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):
        raise ConfigError("api_key_env: give the name of an environment variable, not the key")
    try:
        json.dumps(extra, allow_nan=False)
        is_json = True
    except (TypeError, ValueError, RecursionError):
        is_json = False
    timeout, backoff, pixels = (options[key] for key in ("timeout", "backoff", "max_pixels"))
    for fault, applies in {
        "base_urls: give at least one address": not options["base_urls"],
        "model: give its name at the server": not options["model"],
        f"concurrency: {options['concurrency']} is less than 1": options["concurrency"] < 1,
        f"timeout: {timeout} is not a positive number of seconds": not timeout > 0,
        f"retries: {options['retries']} is negative": options["retries"] < 0,
        f"backoff: {backoff} is not a number of seconds": not 0 <= backoff < math.inf,
        f"max_pixels: {pixels} is less than one token of an image, {TOKEN}": pixels < TOKEN,
        f"extra_body: leave out {', '.join(sorted(OURS & {*extra}))}, which the judge sets": bool(
            OURS & {*extra}
        ),
        "extra_body: give only what JSON can hold": not is_json,
    }.items():
        if applies:
            raise ConfigError(fault)
