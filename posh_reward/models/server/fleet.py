"""Several servers of one model: whose turn it is, retries, and rest for those that fail."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.models.server.server_http import (
    TIMEOUT,
    ExchangeError,
    ServerClient,
    TransientError,
)

logger = logging.getLogger(__name__)

CHAT = "/chat/completions"
STRIKES = 3  # failures in a row after which a server rests, as long as another one answers
REST = 30.0  # seconds that it rests; then one prompt tries it again
LONGEST_PAUSE = 30.0  # seconds; a server that asks for a longer pause is asked again after this one
TIMEOUTS = 3
"""Timeouts of one prompt, at any servers, after which it is given up once each server had its
turn: otherwise it would take many minutes."""
REMEMBERED = 100_000  # starts of prompts whose server is remembered; beyond that all are forgotten


@dataclass(frozen=True, slots=True)
class Patience:
    """A prompt's time limits.

    Args:
        timeout: seconds for one exchange.
        retries: how often all servers are asked again.
        backoff: seconds before the first of these; twice as many before each next one, and up
            to half as many again by chance, so that prompts do not come back all at once.
    """

    timeout: float
    retries: int
    backoff: float

    def pause(self, time: int, after: float) -> float:
        """Seconds to wait after a number of rounds, if the servers want ``wanted``."""
        grown = self.backoff * 2.0 ** min(time, 16) * random.uniform(1, 1.5)
        return min(max(grown, after), LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class Server:
    """One address, and how it has done lately."""

    url: str
    strikes: int = 0  # failures in a row
    rests_until: float = 0.0  # on the monotonic clock
    warned: bool = False  # a first timeout was logged

    def note_failure(self, reason: str, timeout: float) -> None:
        """Count a failure; from the third in a row on the server rests."""
        # Logged at the third strike only, not at each: a run asks thousands of questions.
        self.strikes += 1
        if self.strikes == STRIKES:
            logger.warning(
                "judge server %s fails again and again (%s): it rests for %g s while others answer",
                *(self.url, reason, REST),
            )
        elif reason == TIMEOUT and not self.warned:
            self.warned = True
            logger.warning(
                "judge server %s gave no answer within %g s: the question is asked again",
                *(self.url, timeout),
            )
        self.note_try()

    def note_try(self) -> None:
        """Note that it is asked: after a rest, others stay away until the answer is there."""
        # Else, the moment a rest ends, all waiting prompts would run into the same dead server.
        if self.strikes >= STRIKES:
            self.rests_until = time.monotonic() + REST

    def leave_alone(self) -> None:
        """Let a server that was down at the start rest at once."""
        self.strikes = STRIKES
        self.note_try()


class Fleet:
    """The servers, and which of them has each prefix or image in its cache."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.servers = [Server(url) for url in urls]
        self.given_up: str | None = None
        """The reason why no server answered last time; None as soon as one does."""
        self._homes: dict[int, int] = {}

    def home(self, start: Hashable) -> int:
        """Index of the server for prompts with this start; it stays, and new starts take turns."""
        if len(self._homes) >= REMEMBERED:
            self._homes.clear()
        return self._homes.setdefault(hash(start), len(self._homes) % len(self.servers))

    def order(self, home: int) -> list[Server]:
        """Servers to ask, the prompt's own first: those that do not rest, or all if all do."""
        now = time.monotonic()
        servers = self.servers[home:] + self.servers[:home]
        return [server for server in servers if server.rests_until <= now] or servers


class ServerBatch:
    """One batch of prompts, which is given up if no server answers any of them.

    Args:
        http: the client.
        fleet: the servers.
        patience: of each prompt.
        sign_of_life: a question that every working server answers; None if there is no need to
            find out why a prompt has no answer.
        timeouts: of one prompt, after which it is given up.
    """

    def __init__(
        self,
        http: ServerClient,
        fleet: Fleet,
        patience: Patience,
        sign_of_life: Mapping[str, Any] | None,
        timeouts: int = TIMEOUTS,
    ) -> None:
        self._http = http
        self._fleet = fleet
        self._patience = patience
        self._sign_of_life = sign_of_life
        self._timeouts = timeouts
        self._last_answer = 0.0
        self._given_up: str | None = None
        self._looking = asyncio.Lock()

    async def start(self) -> None:
        """Give up at once if the last batch did, and still no server answers a simple question.

        Otherwise every batch would wait, with all its patience, for a judge that is down.
        """
        reason = self._fleet.given_up
        if reason is None:
            return
        signs = await self._signs()
        if all(isinstance(sign, TransientError) and sign.status != 429 for sign in signs):
            self._given_up = reason

    async def ask(self, home: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The reply of the first server that gives one, beginning with the prompt's own.

        Raises:
            ExchangeError: none gave one, or one refused.
        """
        began = time.monotonic()
        failure = TransientError("no server was asked")
        timeouts = 0
        for tries in range(self._patience.retries + 1):
            if tries:
                await asyncio.sleep(self._patience.pause(tries - 1, failure.after))
            # All servers in turn before a pause: one that is down costs a prompt no waiting while
            # another works. The order is made anew, as servers may have begun or ended a rest.
            for server in self._fleet.order(home):
                if self._given_up is not None:
                    raise TransientError(self._given_up)
                try:
                    return await self._ask_one(server, body)
                except TransientError as error:
                    failure = error
                    timeouts += error.reason == TIMEOUT
            if timeouts >= self._timeouts:
                break
        if self._sign_of_life is not None:
            await self._look(began, failure)
        raise failure

    async def _ask_one(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        server.note_try()
        try:
            reply = await self._http.post(server.url + CHAT, body)
        except TransientError as error:
            if error.status != 429:  # a busy server works
                server.note_failure(error.reason, self._patience.timeout)
            raise
        except ExchangeError:  # a refusal is an answer, too: the server works
            self._note_answer(server)
            raise
        self._note_answer(server)
        return reply

    def _note_answer(self, server: Server) -> None:
        server.strikes, server.rests_until = 0, 0.0
        self._fleet.given_up = None
        self._last_answer = time.monotonic()

    async def _look(self, began: float, failure: ExchangeError) -> None:
        """Give up the batch if no server has answered meanwhile, nor answers a simple question.

        Otherwise every prompt in turn would wait for a judge that is down, for hours. The simple
        question tells that from a run of prompts that the server cannot cope with.
        """
        # One prompt at a time looks: the others find what it found, instead of asking again.
        async with self._looking:
            if self._given_up is not None or self._last_answer > began:
                return
            signs = await self._signs()
            if all(isinstance(sign, TransientError) for sign in signs):
                self._given_up = self._fleet.given_up = failure.reason

    async def _signs(self) -> list[ExchangeError | None]:
        async def sign(server: Server) -> ExchangeError | None:
            try:
                await self._ask_one(server, self._sign_of_life or {})
            except ExchangeError as error:
                return error
            return None

        return list(await asyncio.gather(*map(sign, self._fleet.servers)))
