"""One batch of prompts at several servers: turns, retries, and giving up what answers nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from posh_reward.models.server.fleet import RetryPolicy, Server, ServerPool
from posh_reward.models.server.identity import OTHER_GRADES, Answer, Identity, StartQuestions
from posh_reward.models.server.server_http import (
    SERVER_TIMED_OUT,
    ExchangeError,
    ServerClient,
    TransientError,
)

logger = logging.getLogger(__name__)

CHAT_PATH = "/chat/completions"
MAX_TIMEOUTS = 3
"""Timeouts of one prompt, at any servers, after which it is given up at the end of a round; and
timeouts without any answer after which a batch asks for a sign of life: more would take minutes."""
MAX_START_TIMEOUTS = 2
"""Timeouts of a question of the start: three and a sign of life would take four minutes."""


class ServerBatch:
    """One batch of prompts, given up as a whole once no server answers anything.

    Args:
        http: the client for this batch.
        pool: the servers; their health outlives the batch.
        policy: limits of time and of retries.
        probe: request for a sign of life; without one a batch is never given up as a whole.
        timeouts: of one prompt, after which it is given up.
    """

    def __init__(
        self,
        http: ServerClient,
        pool: ServerPool,
        policy: RetryPolicy,
        probe: Mapping[str, Any] | None = None,
        timeouts: int = MAX_TIMEOUTS,
    ) -> None:
        self._http = http
        self._pool = pool
        self._policy = policy
        self._probe = probe
        self._timeouts = timeouts
        self._last_answer = time.monotonic()  # before the first one, the batch's start
        self._given_up: str | None = None
        self._probing = asyncio.Lock()
        self._probed: set[str] = set()
        """Addresses of servers that are asked for a sign of life, while all prompts wait."""
        self._busy = dict.fromkeys((server.url for server in pool.servers), 0)
        """Address -> questions that it is answering."""
        self._turn = asyncio.Condition()

    async def start(self, questions: StartQuestions) -> None:
        """Settle doubts about servers, and give up at once if the last batch was, and rightly.

        Otherwise every batch would go through all its retries for a judge that is down.
        """
        doubtful = [server for server in self._pool.servers if server.doubt is not None]
        if any(server.ready for server in self._pool.servers):
            doubtful = [server for server in doubtful if not server.resting]
        await asyncio.gather(*(self._settle_doubt(each, questions) for each in doubtful))
        if self._pool.given_up is not None:
            reason = self._pool.given_up
            errors = await self._probe_all()
            down = (isinstance(error, TransientError) and error.status != 429 for error in errors)
            self._given_up = reason if errors and all(down) else None

    async def ask(self, home: int, body: Mapping[str, Any]) -> tuple[Server, dict[str, Any]]:
        """The first server's reply, starting with the prompt's ``home``."""
        servers = self._pool.servers
        return await self._ask_until_answered(lambda: self._pool.order(home), servers[home], body)

    async def ask_server(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        """This server's reply; ``TransientError`` at once while it rests and another one works."""
        _, reply = await self._ask_until_answered(
            lambda: [] if self._pool.should_skip(server) else [server], server, body
        )
        return reply

    def doubt(self, server: Server, reason: str) -> None:
        """Ask a server nothing more in this batch: it may have another model."""
        if server.doubt is None:
            server.doubt = reason
            logger.warning("judge server %s is asked no more in this batch: %s", server.url, reason)

    async def _ask_until_answered(
        self, servers: Callable[[], list[Server]], home: Server, body: Mapping[str, Any]
    ) -> tuple[Server, dict[str, Any]]:
        """The first reply of any of these servers, whose choice may change with each round."""
        began = time.monotonic()
        failure = TransientError(home.doubt or home.fault)
        timeouts = 0
        for rounds in range(self._policy.retries + 1):
            if rounds:
                await asyncio.sleep(self._policy.pause(rounds, failure.after))
            # Try all servers before a pause: one that is down costs no waiting while another works.
            # Recompute the order, since servers may have begun or ended a rest.
            order = servers()
            for server in order:
                try:
                    return server, await self._ask_in_turn(server, body)
                except TransientError as error:
                    if self._given_up is not None:
                        raise TransientError(self._given_up) from None
                    failure = error
                    timeouts += error.reason == SERVER_TIMED_OUT
            if not servers():
                raise failure
            if timeouts >= self._timeouts:
                break
        await self._give_up_if_down(began, failure)
        raise failure

    async def _ask_in_turn(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        """One exchange, in turn; after a slow failure, find out whether any server is left."""
        async with self._turn_at(server):
            began = time.monotonic()
            try:
                reply = await self._post_question(server, body)
                self._check_name(server, reply)
                return reply
            except TransientError as error:
                failure = error
        ended = time.monotonic()
        if failure.status != 429 and ended - began >= self._policy.slow:
            since = ended - MAX_TIMEOUTS * self._policy.timeout
            await self._give_up_if_down(since, failure)
        raise failure

    async def _post_question(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        server.note_try()
        began = time.monotonic()
        try:
            reply = await self._http.post(server.url + CHAT_PATH, body)
        except TransientError as error:
            if error.status != 429:  # a busy server works
                server.note_failure(error.reason)
            raise
        except ExchangeError:  # a refusal is an answer, too: the server works
            self._note_answer(server, began)
            raise
        self._note_answer(server, began)
        return reply

    def _note_answer(self, server: Server, began: float) -> None:
        self._last_answer = time.monotonic()
        self._pool.given_up = None
        server.note_answer(self._last_answer - began, self._policy)

    def _check_name(self, server: Server, reply: Mapping[str, Any]) -> None:
        """Raise ``TransientError`` if a reply is another model's, or its server is in doubt."""
        if server.identity is not None:
            reason = server.identity.other_name(reply, self._http.clean)
            if reason is not None:
                self.doubt(server, reason)
        if server.doubt is not None:
            raise TransientError(server.doubt)

    @asynccontextmanager
    async def _turn_at(self, server: Server) -> AsyncIterator[None]:
        """Wait until the server takes another question; that wait is not part of the timeout.

        ``TransientError`` as soon as the wait is in vain: the batch is given up, or the server is
        in doubt, or rests while others work.
        """

        def is_in_vain() -> bool:
            return self._given_up is not None or self._pool.should_skip(server)

        def is_free() -> bool:
            return server.url not in self._probed and self._busy[server.url] < server.turns

        async with self._turn:
            await self._turn.wait_for(lambda: is_in_vain() or is_free())
            if is_in_vain():
                raise TransientError(self._given_up or server.doubt or server.fault)
            self._busy[server.url] += 1
        try:
            yield
        finally:
            async with self._turn:
                self._busy[server.url] -= 1
                self._turn.notify_all()

    async def _give_up_if_down(self, since: float, failure: ExchangeError) -> None:
        """Give up the batch if no server has answered since then or answers the probe.

        Otherwise every prompt in turn would wait for a judge that is down, for hours. The probe
        tells that apart from a run of prompts that the server cannot handle.
        """
        async with self._probing:  # one prompt probes; the others reuse its finding
            if self._probe is None or self._given_up is not None or self._last_answer > since:
                return
            errors = await self._probe_all()
            down = all(isinstance(error, TransientError) for error in errors)
            if down and self._last_answer <= since:  # no answer to a prompt meanwhile, either
                self._given_up = self._pool.given_up = failure.reason

    async def _probe_all(self) -> list[ExchangeError | None]:
        """Each server's error when asked the probe, ahead of all prompts; None if it answers.

        Servers in doubt are not asked: they serve no prompt, even if they answer.
        """

        async def probe(server: Server) -> ExchangeError | None:
            self._probed.add(server.url)
            try:
                await self._post_question(server, self._probe or {})
            except ExchangeError as error:
                return error
            finally:
                self._probed.discard(server.url)
                async with self._turn:
                    self._turn.notify_all()
            return None

        servers = [each for each in self._pool.servers if each.doubt is None]
        return list(await asyncio.gather(*map(probe, servers)))

    async def _settle_doubt(self, server: Server, questions: StartQuestions) -> None:
        """Ask a server the questions of the start; end the doubt if it has the first model.

        Hosts change fingerprints without changing a model: one whose grades agree is known then.
        """
        first = server.identity or self._pool.identity
        try:
            again, _ = await identify_server(self._http, server.url, self._policy, questions)
        except ExchangeError as error:
            server.doubt = error.reason
            server.note_failure(error.reason)
            return
        if first is None:
            first = again
        named = first.other_model(again.model)
        if named is not None or (
            questions.graded and not first.agrees(dict(enumerate(again.grades)))
        ):
            server.doubt = named or OTHER_GRADES
            return
        new = again.fingerprints - first.fingerprints
        if new:
            logger.warning(
                "judge server %s has a new system_fingerprint (%s) and answers as before: it is "
                "taken for the same model",
                *(server.url, ", ".join(sorted(new))),
            )
        server.identity = replace(first, fingerprints=first.fingerprints | new)
        server.doubt, server.failures, server.cooldown_until = None, 0, 0.0


async def identify_server(
    http: ServerClient, url: str, policy: RetryPolicy, questions: StartQuestions
) -> tuple[Identity, list[Answer]]:
    """Ask a server the questions of the start; raises ``ExchangeError``."""
    batch = ServerBatch(http, ServerPool([Server(url)]), policy, timeouts=MAX_START_TIMEOUTS)
    replies = [(await batch.ask(0, body))[1] for body in questions.bodies]
    answers = [questions.read(reply) for reply in replies]
    identity = Identity.of(replies, answers, http.clean)
    for reply in replies:
        reason = identity.other_name(reply, http.clean)
        if reason is not None:
            raise ExchangeError(reason)
    return identity, answers
