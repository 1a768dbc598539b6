"""Checks before the first question: each server is up, has the model, and answers readably."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from posh_reward.errors import JudgeError, MissingDependencyError
from posh_reward.models.labels import LabelReading
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import image_of
from posh_reward.models.server import chat_messages, server_http
from posh_reward.models.server.fleet import Server
from posh_reward.models.server.server_http import ExchangeError, ServerClient, TransientError
from posh_reward.types import PromptImage

logger = logging.getLogger(__name__)

PROBE = "DESCRIPTION: A dog.\n\nQ: Is a dog mentioned?\n\nRespond ONLY with an integer 1-5."
"""A short question, similar to a metric's."""
LIST_SECONDS = 10.0  # timeout for the list of models
QUIET_SECONDS = 10.0  # without a first answer before the wait is logged
NO_SIGHT = "the server answers questions, but not about an image"

REMEDY = {
    server_http.UNREACHABLE: "is it started, and the address right?",
    server_http.TIMEOUT: "is it started, and timeout long enough?",
    server_http.DISTRUSTED: "point SSL_CERT_FILE to its certificate authority",
    server_http.PROXY: "correct http_proxy or https_proxy, or list the server in no_proxy",
    server_http.BAD_ADDRESS: "correct base_urls",
    server_http.TOO_LONG: "start it with a longer context (--max-model-len, --ctx-size)",
    server_http.COMPRESSED: "is it behind a gateway that compresses everything?",
    chat_messages.NO_LOG_PROBABILITIES: "use a server that returns them, such as `vllm serve`, or "
    "set `labels: false` where it only writes (PROVE's writer and tuples, rubrics)",
    chat_messages.FEWER: "use one that returns as many, such as `vllm serve`",
    NO_SIGHT: "serve a vision-language model, or leave out `images: true`",
    chat_messages.MASKED: "start vLLM with --logprobs-mode raw_logprobs, its default",
}
LABELS_NEEDED = "use a server that returns log-probabilities, and leave `labels` out"
NO_TOKENIZE = "the server does not report the tokens of the labels"
NO_TOKEN = "a label is not a single token of the model"  # noqa: S105
NO_LABELS = (NO_TOKENIZE, chat_messages.NO_LOG_PROBABILITIES, chat_messages.INCOMPLETE)
LABELS_REMEDY = "reading 'labels' needs vLLM 0.26 or later: choose reading 'top-20'"


def refuse_unusable(
    servers: Sequence[Server], faults: Sequence[ExchangeError | None], reading: LabelReading
) -> None:
    """Refuse unusable servers; leave out those that are down while others are up.

    Raises:
        JudgeError: all are down, or one that is up cannot be used.
    """
    all_down = all(isinstance(fault, TransientError) for fault in faults)
    for server, fault in zip(servers, faults, strict=True):
        if fault is None:
            continue
        remedy = _remedy(fault, reading)
        message = f"{fault}; {remedy}" if remedy else str(fault)
        if all_down or not isinstance(fault, TransientError):
            raise JudgeError(f"judge server {server.url}: {message}")
        logger.warning("judge server %s is left out for now: %s", server.url, message)
        server.leave_alone()


def _remedy(fault: ExchangeError, reading: LabelReading) -> str:
    if reading == "labels" and fault.reason in NO_LABELS:
        return LABELS_REMEDY
    if fault.status in (401, 403):
        return "is the key in the environment variable that api_key_env names?"
    return REMEDY.get(fault.reason, "")


async def find_model(client: ServerClient, urls: Sequence[str]) -> str:
    """Return the only model that the first server which is up lists.

    Raises:
        JudgeError: none is up, or one lists none or several.
    """
    for url in urls:
        try:
            names = await model_names(client, url, LIST_SECONDS)
        except ExchangeError as error:
            fault = error
            continue
        if len(names) == 1:
            return names[0]
        listed = client.clean(", ".join(name[:100] for name in names[:5])) or "no model"
        raise JudgeError(
            f"{url} lists {listed}: choose one with `model:` in a settings file "
            "(configs/judge/local.yaml)"
        )
    remedy = REMEDY.get(fault.reason, "is this the address of an OpenAI-compatible server?")
    raise JudgeError(f"judge server {urls[-1]}: {fault}; {remedy}")


async def model_names(client: ServerClient, url: str, seconds: float) -> list[str]:
    """Names in a server's list of models; ``ExchangeError`` if it has none."""
    listed = (await client.get(f"{url}/models", seconds)).get("data")
    entries = listed if isinstance(listed, list) else []
    ids = [each.get("id") for each in entries if isinstance(each, dict)]
    return [name for name in ids if isinstance(name, str)]


async def check_model(client: ServerClient, url: str, model: str) -> None:
    """Raise ``ExchangeError`` if a server lists its models without this one, or refuses to."""
    try:
        names = await model_names(client, url, LIST_SECONDS)
    except ExchangeError as error:
        hangs = error.reason == server_http.TIMEOUT  # as each question would
        if (isinstance(error, TransientError) and not hangs) or error.status in (404, 405):
            return
        raise
    if names and model not in names:
        # Each name is truncated before joining: one may have megabytes.
        listed_names = client.clean(", ".join(name[:100] for name in names[:5]))
        raise ExchangeError(f"it serves {listed_names or 'other models'}, not {model}")


def image_probe() -> Prompt:
    """A short question about a small image; ``MissingDependencyError`` without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError("images need Pillow: pip install pillow") from None

    image = image_of(Image.new("RGB", (64, 64), "white"))
    assert isinstance(image, PromptImage)
    return Prompt("", PROBE, (image,))


async def label_tokens(
    client: ServerClient, url: str, model: str, labels: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Ids of each label's tokens: alone, after a space, after a letter (vLLM).

    Raises:
        ExchangeError: the server does not report them.
    """
    root = url.removesuffix("/v1")

    async def ids_of(label: str) -> tuple[int, ...]:
        # A tokenizer has one token for "1" at the start of a word and another within it; a
        # candidate counts only if it decodes to the label alone, not to "x1".
        ids: set[int] = set()
        for text in (label, f" {label}", f"x{label}"):
            body = {"model": model, "prompt": text, "add_special_tokens": False}
            tokens = chat_messages.token_ids(await client.post(f"{root}/tokenize", body))
            if not tokens:  # llama.cpp's takes "content" and ignores the rest
                raise ExchangeError(NO_TOKENIZE)
            last = tokens[-1:]
            decoded = await client.post(f"{root}/detokenize", {"model": model, "tokens": last})
            ids.update(last if str(decoded.get("prompt")).strip() == label else ())
        return tuple(sorted(ids))

    try:
        tokens = tuple([await ids_of(label) for label in labels])
    except ExchangeError as error:
        if isinstance(error, TransientError):
            raise
        raise ExchangeError(NO_TOKENIZE, error.detail, error.status) from None
    if not all(tokens):
        raise ExchangeError(NO_TOKEN)
    return tokens
