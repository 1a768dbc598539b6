"""Messages on the pipe to the child: one JSON object per line.

child:   {"ready": true}                           or {"fatal": "reason"}, and it exits
         {"ready": true, "sizes": [28, 3136, 1003520]}    it accepts images of these sizes
         {"refused": "reason and remedy"}          invalid settings, and it exits
parent:  {"id": 7, "do": "choose", "labels": ["1", ...], "prompts": [["prefix", "suffix"], ...]}
         {"id": 8, "do": "write", "max_tokens": 20, "prompts": [...]}
         with images: "prompts": [["prefix", "suffix", "digest", ...], ...],
                        "images": {"digest": [width, height, "RGB bytes in base64"], ...}
         {"id": 9, "do": "sleep"}                  or "wake"
child:   {"id": 7, "beat": true}                   heartbeat, twice a second while it works
         {"id": 7, "answers": [[0, {"masses": [0.1, ...], ...}], ...]}   as they arrive
         {"id": 7, "done": true}                   no more answers to request 7
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from posh_reward.models.model import Prompt
from posh_reward.types import Failure, PromptImage

IMAGES_AT_ONCE = 16  # images in one request, of a few megabytes each


@dataclass(frozen=True, slots=True)
class EngineReply:
    """The engine's answer to one prompt: masses, a text, or a failure."""

    masses: tuple[float, ...] | None = None  # probability of each label
    text: str | None = None
    failure: Failure | None = None
    submitted: int = 0  # tokens of the prompt
    computed: int = 0  # of these, not found in a cache
    decoded: int = 0


def reply_json(answer: EngineReply) -> dict[str, Any]:
    """An answer as JSON, without its empty fields."""
    return {name: value for name, value in asdict(answer).items() if value not in (None, 0)}


def parse_reply(answer: Mapping[str, Any], labels: int) -> EngineReply:
    masses, failure = answer.get("masses"), answer.get("failure")
    reply = EngineReply(
        **{
            **answer,
            "masses": None if masses is None else tuple(map(float, masses)),
            "failure": None if failure is None else Failure(**failure),
        }
    )
    text = isinstance(reply.text, str) and not labels
    numbers = reply.masses is not None and len(reply.masses) == labels > 0
    if not (reply.failure or text or numbers):
        raise ValueError(f"not an answer: {answer}")
    return reply


def image_portions(prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """Indices of prompts, in order, for requests of up to ``IMAGES_AT_ONCE`` images each."""
    portion: list[int] = []
    batch: set[PromptImage] = set()
    for place, prompt in enumerate(prompts):
        new = batch.union(prompt.images)
        if portion and len(new) > len(batch) and len(new) > IMAGES_AT_ONCE:
            yield portion
            portion, new = [], set(prompt.images)
        portion.append(place)
        batch = new
    if portion:
        yield portion


def prompts_json(prompts: Sequence[Prompt], images: Mapping[PromptImage, Any]) -> dict[str, Any]:
    """Prompts as JSON, with each distinct image once: width, height and RGB bytes."""
    rows = [[p.prefix, p.suffix, *(each.digest for each in p.images)] for p in prompts]
    pixels = {
        each.digest: [*images[each].size, b64encode(images[each].tobytes()).decode()]
        for prompt in prompts
        for each in prompt.images
    }
    return {"prompts": rows, **({"images": pixels} if pixels else {})}


def parse_prompts(request: Mapping[str, Any]) -> list[Prompt]:
    images = {}
    for digest, (width, height, pixels) in request.get("images", {}).items():
        from PIL import Image

        image = Image.frombytes("RGB", (width, height), b64decode(pixels))
        images[digest] = PromptImage(digest, image)
    return [
        Prompt(prefix, suffix, tuple(images[digest] for digest in digests))
        for prefix, suffix, *digests in request["prompts"]
    ]
