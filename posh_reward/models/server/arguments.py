"""What a ``ServerModel`` can be made with, and the name that it gets."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from posh_reward.errors import ConfigError
from posh_reward.models.prompt_images import TOKEN

THINKING_OFF: Mapping[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
"""What Qwen3's template needs to answer at once; vLLM and SGLang pass it on."""

OURS = {
    "model", "messages", "max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "stream",
}  # fmt: skip
"""Fields of a request that the judge sets itself, or needs as they are."""


def name_of(
    model: str,
    revision: str | None,
    reading: str,
    extra: Mapping[str, Any],
    max_pixels: int | None,
) -> str:
    """What answers depend on.

    Args:
        model: its name at the server.
        revision: its revision, if it is known.
        reading: how labels are read.
        extra: the user's own fields.
        max_pixels: the cap on images; None if none are sent.
    """
    name = f"server:{model}{f'@{revision}' if revision else ''}:{reading}"
    if extra != THINKING_OFF:
        written = json.dumps(dict(extra), sort_keys=True)
        name += f":{hashlib.sha256(written.encode()).hexdigest()[:8]}"
    return name if max_pixels is None else f"{name}:pixels-{max_pixels}"


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def check_key_variable(name: str | None) -> None:
    """Refuses what cannot be the name of an environment variable, such as a key.

    Raises:
        ConfigError: the message does not repeat it.
    """
    if name is not None and not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ConfigError("api_key_env: give the name of an environment variable, not the key")


def check(
    urls: Sequence[str],
    model: str,
    concurrency: int,
    timeout: float,
    retries: int,
    backoff: float,
    max_pixels: int,
    extra: Mapping[str, Any],
) -> None:
    """Refuses values that cannot be used.

    Raises:
        ConfigError: the message names the argument and the value.
    """
    taken = sorted(OURS & set(extra))
    wrong = {
        "base_urls: give at least one address": not urls,
        "model: give its name at the server": not model,
        f"concurrency: {concurrency} is less than 1": concurrency < 1,
        f"timeout: {timeout} is not a positive number of seconds": not timeout > 0,
        f"retries: {retries} is negative": retries < 0,
        f"backoff: {backoff} is not a number of seconds": not 0 <= backoff < math.inf,
        f"max_pixels: {max_pixels} is less than one token of an image, {TOKEN}": max_pixels < TOKEN,
        f"extra_body: leave out {', '.join(taken)}, which the judge sets": bool(taken),
        "extra_body: give only what JSON can hold": not _is_json(extra),
    }
    for message, is_so in wrong.items():
        if is_so:
            raise ConfigError(message)
