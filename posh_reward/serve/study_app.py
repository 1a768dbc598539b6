"""A packet's pages behind links, one per rater; answers are stored on arrival.

The organiser has a link of their own, to a page that says how far raters are.

A link's token is all that a rater needs, and all that the server knows about a rater. Answers are
the files that the page would save, so ``packets read`` takes the folder. TLS is left to a proxy.
"""

from __future__ import annotations

import asyncio
import csv
import io
import logging
import os
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from posh_reward.errors import BusyError, InputError
from posh_reward.process.locks import LOCK_FILE, keep_folder, whole_file
from posh_reward.serve.hosts import OwnHosts
from posh_reward.study.packets.make import make_servable
from posh_reward.study.packets.progress_page import progress_page
from posh_reward.study.packets.rater_answers import (
    AnswerSheet,
    collect_answers,
    read_page_sheet,
    read_sheets,
)
from posh_reward.study.packets.study_records import Answer, PacketKey

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 4_000_000  # of a rater's answers; comments have up to 2,000 characters
RESPONSE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # a link's token is a secret
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
NO_PAGE = "There is no page here: please check the link that you were sent."
ORGANISER = "organiser"
VERSION_HEADER = "X-Answers-Version"
"""Header of requests and replies; not an ETag, which proxies change, such as to compress."""
EARLIER_FOLDER = ".earlier"  # folder of replaced answers, next to those that count
MAX_EARLIER_FILES = 200  # replaced files of a rater
NO_ANSWERS_VERSION = "none"  # version of missing answers


def study_app(
    key: PacketKey,
    packet: Path,
    answers: Path,
    tokens: Mapping[str, str],
    names: Iterable[str] = (),
    organiser: Mapping[str, str] | None = None,
) -> Starlette:
    """Make an ASGI app that shows each rater a page and stores the answers.

    Besides this machine's name and its addresses, raters may reach it by ``names``. ``organiser``
    has the tokens of the page of progress, as ``tokens`` has those of raters' pages.
    """
    try:
        keep_folder(answers, f".{key.packet}{LOCK_FILE}")
    except BusyError:
        raise BusyError(
            f"this packet is already being served: its answers go to {str(answers)!r}. Use the "
            "links that were printed then, or end the other `packets serve` first"
        ) from None
    site = StudySite(key, packet, answers, tokens, organiser or {})
    app = Starlette(
        routes=[
            Route("/r/{token}", site.send_page),
            Route("/r/{token}/answers", site.send_answers, methods=["GET"]),
            Route("/r/{token}/answers", site.store_answers, methods=["PUT"]),
            Route("/o/{token}", site.send_progress),
            Route("/health", lambda _: PlainTextResponse("ok")),
        ],
        exception_handlers={OSError: site.report_fault},
    )
    remedy = "name it with --url, such as --url https://study.museum.example"
    app.add_middleware(OwnHosts, names=names, remedy=remedy)
    app.router.redirect_slashes = False  # to whatever host a request names
    return app


async def _read_body(request: Request) -> bytes | None:
    """Read a request's body; None if it has more bytes than answers may have, whatever it says."""
    if int(request.headers.get("content-length", MAX_ANSWER_BYTES + 1)) > MAX_ANSWER_BYTES:
        return None
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            return None
    return b"".join(parts)


class StudySite:
    """Pages and answers by token; arguments and errors as for ``study_app``."""

    def __init__(
        self,
        key: PacketKey,
        packet: Path,
        answers: Path,
        tokens: Mapping[str, str],
        organiser: Mapping[str, str],
    ) -> None:
        self._key, self._answers, self._tokens = key, answers, tokens
        self._organiser = organiser
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pages: dict[str, bytes] = {}
        self._fault = ""  # of the disk, at the last attempt to store
        for rater in key.raters:
            path = packet / f"{rater}.html"
            try:
                page = path.read_text(encoding="utf-8")
            except OSError as error:
                why = f"cannot read the page {str(path)!r}: {error.strerror}"
                raise InputError(why) from None
            self._pages[rater] = make_servable(page).encode()

    async def send_page(self, request: Request) -> Response:
        return Response(
            self._pages[self._find_rater(request)], media_type="text/html", headers=RESPONSE_HEADERS
        )

    async def send_progress(self, request: Request) -> Response:
        """Send the organiser's page: who has answered how much, and no answer."""
        if request.path_params["token"] not in self._organiser:
            raise HTTPException(404, NO_PAGE)
        page = await run_in_threadpool(self._render_progress)
        return Response(page, media_type="text/html", headers=RESPONSE_HEADERS)

    def _render_progress(self) -> str:
        files = [self._answers_path(rater) for rater in self._key.raters]
        there = [file for file in files if file.exists()]
        return progress_page(collect_answers(there, self._key, partial=True), self._key)

    async def send_answers(self, request: Request) -> Response:
        """Send the stored answers with their version; status 204 without any."""
        rater = self._find_rater(request)
        data = await run_in_threadpool(self._read_stored, rater)
        headers = {**RESPONSE_HEADERS, VERSION_HEADER: _compute_version(data)}
        if data is None:
            return Response(status_code=204, headers=headers)
        return Response(data, media_type="application/json", headers=headers)

    async def store_answers(self, request: Request) -> Response:
        """Store answers based on the version in the header; on disk before the reply.

        Status 412 if others came in between, from another computer: the page merges them and sends
        again.
        """
        rater = self._find_rater(request)
        try:
            data = await _read_body(request)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody; otherwise it would be logged as a fault
        if data is None:
            return PlainTextResponse(f"these are more than {MAX_ANSWER_BYTES:,} bytes", 413)
        try:
            sheet = await run_in_threadpool(read_page_sheet, data, self._key)
        except (InputError, ValueError) as error:
            return PlainTextResponse(str(error)[:300], 422)
        if sheet.rater != rater:
            return PlainTextResponse("these are another rater's answers", 422)
        async with self._locks[rater]:
            before = await run_in_threadpool(self._read_stored, rater)
            if request.headers.get(VERSION_HEADER) != _compute_version(before):
                return Response(status_code=412)
            if before is not None and before != data:
                await run_in_threadpool(self._keep_earlier, before, sheet)
            await run_in_threadpool(replace_on_disk, self._answers_path(rater), data)
        if self._fault:
            logger.warning("answers can be stored again")
        self._fault = ""
        return Response(status_code=204, headers={VERSION_HEADER: _compute_version(data)})

    async def report_fault(self, _: Request, error: Exception) -> Response:
        """Tell that the disk fails, such as a full one; the page keeps the answers and retries."""
        fault = str(error)
        if isinstance(error, OSError) and error.strerror:
            fault = error.strerror
        if fault != self._fault:
            logger.error(
                "answers cannot be stored in %r (%s): make room; raters' browsers keep them and "
                "send them again", str(self._answers), fault,
            )  # fmt: skip
        self._fault = fault
        return PlainTextResponse(f"the answers cannot be stored: {fault}", 507)

    def _find_rater(self, request: Request) -> str:
        try:
            return self._tokens[request.path_params["token"]]
        except KeyError:
            raise HTTPException(404, NO_PAGE) from None

    def _answers_path(self, rater: str) -> Path:
        return self._answers / f"answers-{self._key.packet}-{rater}.json"

    def _keep_earlier(self, before: bytes, after: AnswerSheet) -> None:
        """Keep stored answers that are not among those which replace them.

        Whoever opens a link with old answers in the browser could send them instead of newer ones.
        """
        now = _drop_times(after)
        try:
            [stored] = read_sheets(before, self._key)
            is_lost = any(each not in now for each in _drop_times(stored))
        except ValueError:  # damaged, or of an older version
            is_lost = True
        folder, name = self._answers / EARLIER_FOLDER, self._answers_path(after.rater).stem
        count = len(list(folder.glob(f"{name}-*.json")))
        if is_lost and count < MAX_EARLIER_FILES:
            folder.mkdir(0o700, exist_ok=True)
            replace_on_disk(folder / f"{name}-{count + 1:03}.json", before)

    def _read_stored(self, rater: str) -> bytes | None:
        try:
            return self._answers_path(rater).read_bytes()
        except FileNotFoundError:
            return None


def _drop_times(sheet: AnswerSheet) -> list[Answer]:
    return [replace(each, seconds=None) for each in sheet.answers]


def _compute_version(data: bytes | None) -> str:
    if data is None:
        return NO_ANSWERS_VERSION
    return sha256(data).hexdigest()[:32]


def replace_on_disk(path: Path, data: bytes) -> None:
    """Replace a file on disk; a kill or a power cut leaves either the old or the new one.

    Only its owner may read it: it has people's answers, or tokens with which anyone can answer.
    """
    with whole_file(path, 0o600) as file:
        file.write(data)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name survives, too
    finally:
        os.close(folder)


def read_tokens(path: Path, raters: Iterable[str]) -> dict[str, str]:
    """Read the tokens of the raters' links from a table (``rater``, ``token``), drawn at first."""
    names = list(raters)
    if not path.exists():
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerows([("rater", "token"), *((n, secrets.token_urlsafe(16)) for n in names)])
        replace_on_disk(path, text.getvalue().encode())
    try:
        table = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        tokens = {row["token"]: row["rater"] for row in table if row["token"]}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{str(path)!r} is not a table of links: {error!r}") from None
    if sorted(tokens.values()) != sorted(names):
        raise InputError(
            f"the names in {str(path)!r} are not those of the key: choose another key, or move it"
        )
    return tokens
