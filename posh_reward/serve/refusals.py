"""Replies to requests without a result, in one form that the server's schema publishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from posh_reward.errors import PoshError, on_one_line, shortened
from posh_reward.models.server.server_http import clean

LONGEST_VALUE = 120
"""Characters shown of the faulty value."""
REPR = Repr()
REPR.maxstring = REPR.maxother = LONGEST_VALUE

Code = Literal[
    "unauthorized", "not_found", "method_not_allowed", "slow", "too_large", "invalid",
    "not_scored", "busy", "internal", "judge", "full",
]  # fmt: skip


class Refusal(BaseModel):
    """Reason for a missing result."""

    code: Code = Field(description="For programs; several codes can share a status.")
    error: str = Field(description="The reason, in one line.")
    field: str | None = Field(description="Place of the faulty value, such as rows.0.image.")
    value: str | None = Field(description="The faulty value, shortened.")
    remedy: str = Field(description="Advice, in one line.")


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason for refusals."""

    status: int
    what: str  # description in the schema
    remedy: str
    after: int | None = None  # seconds to wait before the next try, sent as Retry-After


CAUSES: dict[Code, Cause] = {
    "unauthorized": Cause(
        401, "the key is missing or wrong", "Send the server's key as Authorization: Bearer KEY."
    ),
    "not_found": Cause(404, "unknown path", "See /docs for the paths."),
    "method_not_allowed": Cause(
        405, "the path needs another method", "See /docs for the method of each path."
    ),
    "slow": Cause(408, "the body took too long", "Send fewer rows at a time."),
    "too_large": Cause(413, "the body is too large", "Send fewer rows at a time."),
    "invalid": Cause(422, "the request cannot be used", "See /docs for the form of each field."),
    "not_scored": Cause(
        422, "a completion has no reward because it or its reference is faulty",
        "Fix the text, or start the server with --fallback.",
    ),
    "busy": Cause(
        429, "too many texts are waiting", "Send it again after Retry-After, in seconds.", 1
    ),
    "internal": Cause(500, "an error of the server", "See the server's log."),
    "judge": Cause(
        503, "the judge cannot work now",
        "Send it again after Retry-After; see the server's log.", 2,
    ),
    "full": Cause(503, "the server's memory is full", "Send it again after Retry-After.", 2),
}  # fmt: skip
assert {*CAUSES} == {*get_args(Code)}
HTTP_CODES: dict[int, tuple[Code, str]] = {
    400: ("invalid", "body"),
    404: ("not_found", "path"),
    405: ("method_not_allowed", "method"),
}
"""Status of the framework's own errors -> code and field."""
UNKNOWN = "unknown_field"
"""Type of a validation error; its context has the field's place (``at``) in the input."""


class RequestError(PoshError):
    """A request to refuse; arguments as for ``refusal``."""

    def __init__(self, code: Code, why: str, *, field: str, value: object = None) -> None:
        super().__init__(why)
        self.code, self.field, self.value = code, field, value


def refusal(
    code: Code,
    why: str,
    *,
    field: str | None = None,
    value: object = None,
    after: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make a reply without a result.

    Args:
        code: sets the status, too.
        why: the reason, put on one line.
        field: place of the faulty value.
        value: the faulty value; shortened, without keys or images.
        after: seconds to wait before the next try, if other than the cause's.
        headers: further headers, such as ``Allow``.
    """
    cause = CAUSES[code]
    after = cause.after if after is None else after
    headers = dict(headers or {})
    if after is not None:
        headers["Retry-After"] = str(after)
    if code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if value is not None:  # a bounded repr, since a body can be a list of millions
        value = clean(value if isinstance(value, str) else REPR.repr(value), None)
        value = shortened(value, LONGEST_VALUE)
    body = {
        "code": code,
        "error": on_one_line(why),
        "field": field and clean(field, None),
        "value": value,
        "remedy": cause.remedy,
    }
    # In ASCII, since UTF-8 cannot encode half a surrogate pair, which texts can contain.
    return Response(json.dumps(body), cause.status, headers, "application/json")


def http_error(error: HTTPException, request: Request) -> Response:
    """Make the refusal for an error of the framework with a status in ``HTTP_CODES``."""
    code, field = HTTP_CODES[error.status_code]
    value = {"path": request.url.path, "method": request.method}.get(field)
    return refusal(code, error.detail, field=field, value=value, headers=error.headers)


def invalid_body(error: Mapping[str, Any], request: Request) -> Response:
    """Make the refusal for pydantic's first error about a body."""
    place = [str(each) for each in error["loc"] if each != "body"]
    kind, why, value = error["type"], error["msg"], error.get("input")
    if isinstance(value, bytes):  # FastAPI left the body alone
        why = "the body is not read as JSON without the header Content-Type: application/json"
        value = request.headers.get("content-type", "")
        return refusal("invalid", why, field="Content-Type", value=value)
    if kind == UNKNOWN:
        name, value = list(error["input"].items())[error["ctx"]["at"]]
        place.append(name)
    if kind == "json_invalid":  # its place is a character offset
        why = f"{why} at character {' '.join(place)}: {error['ctx']['error']}"
    if kind in ("json_invalid", "missing"):  # its input is the surrounding object
        value = None
    field = ".".join(place) if place and kind != "json_invalid" else "body"
    return refusal("invalid", f"{field}: {why}", field=field, value=value)


def refusal_responses(key: bool) -> dict[int | str, dict[str, object]]:
    """Describe the refusals by status, for an operation's ``responses``; ``key``: one is needed."""
    texts: dict[int, list[str]] = {}
    for code, cause in CAUSES.items():
        if key or code != "unauthorized":
            texts.setdefault(cause.status, []).append(f"`{code}`: {cause.what}")
    later = {cause.status for cause in CAUSES.values() if cause.after is not None}
    again = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return {
        status: {
            "description": "; ".join(lines),
            "model": Refusal,
            **({"headers": again} if status in later else {}),
        }
        for status, lines in texts.items()
    }
