"""Prompts -> the messages of chat requests, with pictures as data URIs."""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from posh_reward.models.ask import BLIND
from posh_reward.models.base import Prompt
from posh_reward.models.pictures import Sizes, settled_picture
from posh_reward.types import Failure, Picture

REMEMBERED = 64
"""Pictures whose data URIs are remembered: of a megapixel each, up to 250 MB."""
FASTEST = 1
"""PNG's compression level. A higher one takes several times as long and saves a tenth."""

Content = str | list[dict[str, Any]]


class Messages:
    """Writes user messages.

    Args:
        max_pixels: larger pictures are shrunk to this; None if pictures must not be sent.
    """

    def __init__(self, max_pixels: int | None) -> None:
        self._sizes = None if max_pixels is None else Sizes(1, 1, max_pixels)
        self._uris: OrderedDict[Picture, str] = OrderedDict()

    def content(self, prompt: Prompt) -> Content | Failure:
        """The content of a prompt's message: its text, with its pictures before it if any."""
        if not prompt.pictures:
            return prompt.text
        parts: list[dict[str, Any]] = []
        for picture in prompt.pictures:
            uri = self._uri(picture)
            if isinstance(uri, Failure):
                return uri
            parts.append({"type": "image_url", "image_url": {"url": uri}})
        return [*parts, {"type": "text", "text": prompt.text}]

    def _uri(self, picture: Picture) -> str | Failure:
        """A picture as a data URI, without loss but for its size."""
        if self._sizes is None:
            return BLIND
        if picture not in self._uris:
            image = settled_picture(picture, self._sizes)
            if isinstance(image, Failure):
                return image
            written = BytesIO()
            image.save(written, "PNG", compress_level=FASTEST)
            self._uris[picture] = f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"
            while len(self._uris) > REMEMBERED:
                self._uris.popitem(last=False)
        self._uris.move_to_end(picture)
        return self._uris[picture]


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
