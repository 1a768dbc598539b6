"""Answers that count only once their server has been found to have the same model still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from posh_reward.models.server.fleet import Server, ServerPool
from posh_reward.models.server.identity import OTHER_GRADES, StartQuestions, read_grade
from posh_reward.models.server.server_batch import ServerBatch
from posh_reward.models.server.server_http import ExchangeError, TransientError

FIRST_BLOCK_ANSWERS, MAX_BLOCK_ANSWERS = 16, 160
"""Answers of a server between two checks: at most as many as have been confirmed before. A check is
two short questions, in the long run 1.3 % more of them. A server or process that dies loses no more
than these answers and those on their way; with only large blocks, a server that keeps dying early
would never get anywhere."""
CHECK_ATTEMPTS = 2  # times that a check is tried: noise, or a broken reply, may spoil one


class HeldAnswers:
    """One batch's answers by server, until a later repetition of two questions of the start.

    A server that changes its model without saying so would fill a store with another model's
    answers. So an answer counts when the server still grades these questions as at the start.

    Args:
        batch: through which servers are asked.
        pool: its servers.
        questions: those of the start; if they are not graded, answers count at once.
        confirm: called with the place of each answer that counts.
    """

    def __init__(
        self,
        batch: ServerBatch,
        pool: ServerPool,
        questions: StartQuestions,
        confirm: Callable[[int], None],
    ) -> None:
        self._batch = batch
        self._pool = pool
        self._questions = questions
        self._confirm = confirm
        self._held: dict[Server, list[int]] = {server: [] for server in pool.servers}
        self._unchecked = dict.fromkeys(pool.servers, 0)
        """Server -> answers since its last check began."""
        self._checking: set[Server] = set()

    async def hold(self, server: Server, place: int) -> None:
        """Take an answer's place, and check its server if a block is full."""
        if not self._find_check_questions(server):
            self._confirm(place)
            return
        self._held[server].append(place)
        self._unchecked[server] += 1
        block = min(max(server.confirmed, FIRST_BLOCK_ANSWERS), MAX_BLOCK_ANSWERS)
        if self._unchecked[server] >= block and server not in self._checking:
            self._checking.add(server)
            await self._check_server(server)
            self._checking.discard(server)

    async def settle(self) -> dict[int, TransientError]:
        """Check all servers with unchecked answers; return the places of those that do not count.

        They are held no longer.
        """
        holding = [server for server, places in self._held.items() if places]
        await asyncio.gather(*map(self._check_server, holding))
        lost: dict[int, TransientError] = {}
        for server, places in self._held.items():
            for place in places:
                lost[place] = TransientError(server.doubt or server.fault)
        self._held = {server: [] for server in self._held}
        return lost

    async def _check_server(self, server: Server) -> None:
        """Confirm what is held of a server, or doubt it; leave all as it is if it cannot tell."""
        held = self._held[server]
        asked = set(held)
        self._unchecked[server] = 0
        differs = False
        for _ in range(CHECK_ATTEMPTS):
            try:
                agrees = await self._grades_as_before(server)
            except ExchangeError as error:
                server.fault = error.reason
                if isinstance(error, TransientError):  # which has been retried
                    break
                continue
            if agrees:
                places = [place for place in held if place in asked]
                held[:] = [place for place in held if place not in asked]
                server.confirmed += len(places)
                for place in places:
                    self._confirm(place)
                return
            differs = True
        if differs:
            self._batch.doubt(server, OTHER_GRADES)

    async def _grades_as_before(self, server: Server) -> bool:
        """True if the server grades two questions as at the start; raises ``ExchangeError``."""
        assert server.identity is not None
        pair = self._find_check_questions(server)
        replies: list[Any] = await asyncio.gather(
            *(self._batch.ask_server(server, self._questions.bodies[place]) for place in pair),
            return_exceptions=True,
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        grades = [read_grade(self._questions.read(reply)) for reply in replies]
        return server.identity.agrees(dict(zip(pair, grades, strict=True)))

    def _find_check_questions(self, server: Server) -> tuple[int, ...]:
        """Places of the two questions that check this server; none if it is not checked."""
        if server.identity is None or not self._questions.graded:
            return ()
        return server.identity.pair or ()
