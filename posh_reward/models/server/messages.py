"""Prompts -> the messages of chat requests, with images as data URIs."""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from posh_reward.models.asker import BLIND
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits, settled_image
from posh_reward.types import Failure, PromptImage

REMEMBERED = 64
"""Images whose data URIs are remembered: of a megapixel each, up to 250 MB."""
FASTEST = 1
"""PNG's compression level. A higher one takes several times as long and saves a tenth."""

Content = str | list[dict[str, Any]]


class ChatMessages:
    """Writes user messages.

    Args:
        max_pixels: larger images are shrunk to this; None if images must not be sent.
    """

    def __init__(self, max_pixels: int | None) -> None:
        self._sizes = None if max_pixels is None else SizeLimits(1, 1, max_pixels)
        self._uris: OrderedDict[PromptImage, str] = OrderedDict()

    def content(self, prompt: Prompt) -> Content | Failure:
        """The content of a prompt's message: its text, with its images before it if any."""
        if not prompt.images:
            return prompt.text
        parts: list[dict[str, Any]] = []
        for prompt_image in prompt.images:
            uri = self._uri(prompt_image)
            if isinstance(uri, Failure):
                return uri
            parts.append({"type": "image_url", "image_url": {"url": uri}})
        return [*parts, {"type": "text", "text": prompt.text}]

    def _uri(self, prompt_image: PromptImage) -> str | Failure:
        """An image as a data URI, without loss but for its size."""
        if self._sizes is None:
            return BLIND
        if prompt_image not in self._uris:
            image = settled_image(prompt_image, self._sizes)
            if isinstance(image, Failure):
                return image
            written = BytesIO()
            image.save(written, "PNG", compress_level=FASTEST)
            self._uris[prompt_image] = (
                f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"
            )
            while len(self._uris) > REMEMBERED:
                self._uris.popitem(last=False)
        self._uris.move_to_end(prompt_image)
        return self._uris[prompt_image]


def body(
    model: str, content: Content, how: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat request.

    Args:
        model: its name at the server.
        content: of the one message.
        how: fields that say what is asked for.
        extra: the user's own fields.
    """
    messages = [{"role": "user", "content": content}]
    return {**extra, "model": model, "messages": messages, **how}
