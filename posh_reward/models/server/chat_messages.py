"""Prompts -> messages; chat completions -> verdicts and replies, or an ``ExchangeError``."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from posh_reward.models.asker import NO_IMAGES_ACCEPTED
from posh_reward.models.model import (
    TOP_TOKENS,
    Prompt,
    counts_for_label,
    label_masses,
    make_verdict,
)
from posh_reward.models.prompt_images import SizeLimits, image_for_model, png_base64
from posh_reward.models.server.server_http import ExchangeError
from posh_reward.types import Failure, PromptImage, Reply, Usage, Verdict

BRACKETED_TEXT = (
    re.compile(r"<[|\uff5c][^<>]{1,80}[|\uff5c]>|<[^<>\s]{1,80}>"),
    re.compile(r"\[[^][\s]{1,40}\]"),
)
"""Possible special tokens by form. Matches of one pattern cannot be nested."""

COMMON_SPECIAL_TOKENS = re.compile(
    r"""
    <[|\uff5c] .+ [|\uff5c]>                                  # Qwen, Llama 3, Phi, DeepSeek
    | </?(s|unk|pad|bos|eos|mask|cls|sep|sop|eop|image|img|audio|video|think|n)>
    | </?(start|end)_of_\w+> | </?(tool|unused|reserved|extra_id|image|audio)\w*>  # Gemma
    | \[/?(INST|AVAILABLE_TOOLS|TOOL_\w+|SYSTEM_PROMPT|IMG\w*|THINK|PREFIX|MIDDLE|SUFFIX)\]
    | \[(CLS|SEP|PAD|UNK|MASK|BOS|EOS|gMASK|sMASK|control_\d+)\]  # BERT, GLM
    """,
    re.VERBOSE,
)
"""Those of common models: a server would read them as such, even within a description."""


def special_token_failure(text: str) -> Failure | None:
    """The failure of a text that contains what a common model's server reads as a special token."""
    for opening, pattern in zip("<[", BRACKETED_TEXT, strict=True):
        if opening not in text:
            continue
        for match in pattern.finditer(text):
            if COMMON_SPECIAL_TOKENS.fullmatch(match[0]):
                why = f"the text contains {match[0]!r}, which a server reads as a special token"
                return Failure("prompt", f"{why}: remove it, or use a judge in this process")
    return None


NO_COMPLETION = "the server's reply is not a chat completion"
NO_LOG_PROBABILITIES = "the server's reply has no log-probabilities"
NO_NUMBERS = "the server's log-probabilities are not numbers"
MASKED_LOG_PROBABILITIES = "the server's log-probabilities are not the model's own"
TOO_FEW_TOKENS = "the server returns fewer than the 20 likeliest tokens"
LISTED_TWICE = "the server lists a token twice"
LABELS_LEFT_OUT = "the server's reply leaves out requested labels"
NO_TEXT = "the server's reply has no text"
TOKEN_ID_PREFIX = "token_id:"  # noqa: S105 - vLLM's prefix of an id
MIN_LOG_PROBABILITY = -9000.0
"""Servers report a token that the sampler excluded as minus infinity, or as -9999."""
SERVER_ROUNDING_TOLERANCE = 1e-2
"""By which half-precision probabilities may sum to more than 1, and a logarithm exceed 0."""

MAX_CACHED_URIS = 64  # cached data URIs; at a megapixel each, up to 250 MB

Content = str | list[dict[str, Any]]


class ChatMessages:
    """Contents of user messages, images as data URIs; without ``max_pixels`` images fail."""

    def __init__(self, max_pixels: int | None) -> None:
        self._sizes = None if max_pixels is None else SizeLimits(1, 1, max_pixels)
        self._uris: OrderedDict[PromptImage, str] = OrderedDict()

    def content(self, prompt: Prompt) -> Content | Failure:
        """The content of a prompt's message: its images, if any, then its text."""
        if not prompt.images:
            return prompt.text
        parts: list[dict[str, Any]] = []
        for prompt_image in prompt.images:
            uri = self._encode_image(prompt_image)
            if isinstance(uri, Failure):
                return uri
            parts.append({"type": "image_url", "image_url": {"url": uri}})
        return [*parts, {"type": "text", "text": prompt.text}]

    def _encode_image(self, prompt_image: PromptImage) -> str | Failure:
        """An image as a data URI, lossless except for resizing."""
        if self._sizes is None:
            return NO_IMAGES_ACCEPTED
        if prompt_image not in self._uris:
            image = image_for_model(prompt_image, self._sizes)
            if isinstance(image, Failure):  # not cached: memory may suffice next time
                return image
            self._uris[prompt_image] = f"data:image/png;base64,{png_base64(image)}"
            if len(self._uris) > MAX_CACHED_URIS:
                self._uris.popitem(last=False)
        self._uris.move_to_end(prompt_image)
        return self._uris[prompt_image]


def read_alternatives(reply: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Token and log-probability of the alternatives for a reply's first token, likeliest first."""
    logprobs = _require_dict(_find_first_choice(reply).get("logprobs"), NO_LOG_PROBABILITIES)
    content = logprobs.get("content")
    if not isinstance(content, list) or not content:
        raise ExchangeError(NO_LOG_PROBABILITIES)
    listed = _require_dict(content[0], NO_LOG_PROBABILITIES).get("top_logprobs")
    if not isinstance(listed, list) or not listed:
        raise ExchangeError(NO_LOG_PROBABILITIES)
    alternatives = list(map(_read_alternative, listed))
    total = math.fsum(math.exp(logprob) for _, logprob in alternatives)
    if total > 1 + SERVER_ROUNDING_TOLERANCE:
        raise ExchangeError(NO_NUMBERS)
    return sorted(alternatives, key=lambda each: -each[1])


def read_top_tokens(reply: Mapping[str, Any], labels: Sequence[str]) -> Verdict:
    """The verdict from the twenty likeliest tokens, counted by ``counts_for_label``."""
    alternatives = read_alternatives(reply)[:TOP_TOKENS]
    if len(alternatives) < TOP_TOKENS:  # fewer would silently change the metric
        raise ExchangeError(TOO_FEW_TOKENS)
    masses = []
    for label in labels:
        counted = [each for each in alternatives if counts_for_label(each[0], label, "top-20")]
        if len(set(counted)) < len(counted):  # one token, listed twice, would count twice
            raise ExchangeError(LISTED_TWICE)
        masses.append(math.fsum(math.exp(logprob) for _, logprob in counted))
    if any(token.startswith(TOKEN_ID_PREFIX) for token, _ in alternatives):
        raise ExchangeError("the server returns tokens as ids: start it without that option")
    return make_verdict(masses, "top-20")


def read_label_ids(reply: Mapping[str, Any], tokens: Sequence[Collection[int]]) -> Verdict:
    """The verdict from the token ids of each label."""
    by_token = dict(read_alternatives(reply))
    logprobs: dict[int, float] = {}
    for token_id in chain.from_iterable(tokens):
        logprob = by_token.get(f"{TOKEN_ID_PREFIX}{token_id}")
        if logprob is None:
            raise ExchangeError(LABELS_LEFT_OUT)
        logprobs[token_id] = logprob
    return make_verdict(label_masses(logprobs, tokens))


def read_reply_text(reply: Mapping[str, Any]) -> Reply:
    """The text of a reply, stripped; ``ExchangeError`` if there is none."""
    text = _require_dict(_find_first_choice(reply).get("message"), NO_COMPLETION).get("content")
    if not isinstance(text, str) or not text.strip():
        raise ExchangeError(NO_TEXT)
    return Reply(text.strip())


def count_tokens(reply: Mapping[str, Any], usage: Usage) -> None:
    """Add the token counts that a reply reports; missing ones count as 0."""
    counts = reply.get("usage")
    if not isinstance(counts, dict):
        return
    submitted = _read_count(counts.get("prompt_tokens"))
    cached = 0
    details = counts.get("prompt_tokens_details")
    if isinstance(details, dict):
        cached = _read_count(details.get("cached_tokens"))
    usage.prompt_tokens_submitted += submitted
    usage.prompt_tokens_computed += max(submitted - cached, 0)
    usage.tokens_decoded += _read_count(counts.get("completion_tokens"))


def read_token_ids(reply: Mapping[str, Any]) -> list[int]:
    """The ids in an answer of vLLM's ``/tokenize``; ``ExchangeError`` if malformed."""
    ids = reply.get("tokens")
    if not isinstance(ids, list) or not all(isinstance(i, int) and i >= 0 for i in ids):
        raise ExchangeError(NO_COMPLETION)
    return ids


def _find_first_choice(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with index 0, at any position."""
    choices = reply.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                return choice
    raise ExchangeError(NO_COMPLETION)


def _read_alternative(entry: object) -> tuple[str, float]:
    each = _require_dict(entry, NO_LOG_PROBABILITIES)
    token, value = each.get("token"), each.get("logprob")
    if not isinstance(token, str):
        raise ExchangeError(NO_LOG_PROBABILITIES)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExchangeError(NO_NUMBERS)
    if not value < SERVER_ROUNDING_TOLERANCE:  # NaN is not less, either
        raise ExchangeError(NO_NUMBERS)
    if value < MIN_LOG_PROBABILITY:
        raise ExchangeError(MASKED_LOG_PROBABILITIES)
    return token, float(value)


def _require_dict(value: object, reason: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ExchangeError(reason)
    return value


def _read_count(value: object) -> int:
    if not isinstance(value, int):
        return 0
    return max(value, 0)
