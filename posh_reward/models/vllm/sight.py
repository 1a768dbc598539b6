"""Pictures on their way to the child, and how its model is shown them."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.models.base import Prompt
from posh_reward.models.pictures import NO_PLACE, Sizes, check_max_pixels, size_of
from posh_reward.types import Failure, Picture

AT_ONCE = 16
"""Pictures in one request, of a few megabytes each."""
MOST = 8
"""Pictures in one prompt."""
PATCHES_GB = 1.0
"""GiB of the host's memory for pictures in patches: forty of a megapixel. Questions about one
picture come together, so vLLM's default of 4 would only be missing elsewhere."""
TOO_MANY = Failure("prompt", f"the prompt has more than {MOST} pictures")
RETOKENISED = Failure(
    "engine", "vLLM made another number of tokens of the pictures than they have parts"
)


@dataclass(frozen=True, slots=True)
class Sight:
    """How a model in vLLM is shown pictures: in which sizes, and in place of which token."""

    sizes: Sizes
    placeholder: int

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the engine. It leaves pictures as they are, since they are settled."""
        least, most = self.sizes.factor**2, self.sizes.max_pixels
        return {
            "limit_mm_per_prompt": {"image": MOST, "video": 0},
            "mm_processor_kwargs": {"min_pixels": least, "max_pixels": most},
            "mm_processor_cache_gb": PATCHES_GB,
        }

    def failure(self, prompt: Prompt, ids: Sequence[int]) -> Failure | None:
        """Why a prompt cannot be asked; None if it can."""
        if len(prompt.pictures) > MOST:
            return TOO_MANY
        places = sum(token == self.placeholder for token in ids)
        return None if places == len(prompt.pictures) else NO_PLACE

    def tokens(self, prompt: Prompt) -> int:
        """How many tokens its pictures, which are settled, add to the placeholder of each."""
        pixels = (math.prod(size_of(each)) for each in prompt.pictures)
        return sum(each // self.sizes.factor**2 - 1 for each in pixels)


def sight_of(model: str, revision: str | None, max_pixels: int) -> Sight:
    """Read from a checkpoint, with transformers."""
    from transformers import AutoConfig
    from transformers.image_processing_base import ImageProcessingMixin

    where = {"revision": revision, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(model, **where)
    said, _ = ImageProcessingMixin.get_image_processor_dict(model, revision=revision)
    least = said.get("min_pixels") or said["size"]["shortest_edge"]
    factor = said["patch_size"] * said["merge_size"]
    check_max_pixels(max_pixels, factor)
    return Sight(Sizes(factor, min(least, max_pixels), max_pixels), config.image_token_id)


def portions(prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """The places of prompts, in order, in requests of up to ``AT_ONCE`` pictures."""
    portion: list[int] = []
    seen: set[Picture] = set()
    for place, prompt in enumerate(prompts):
        new = seen.union(prompt.pictures)
        if portion and len(new) > len(seen) and len(new) > AT_ONCE:
            yield portion
            portion, new = [], set(prompt.pictures)
        portion.append(place)
        seen = new
    if portion:
        yield portion


def request_of(prompts: Sequence[Prompt], shown: Mapping[Picture, Any]) -> dict[str, Any]:
    """Prompts as JSON, with each of their pictures once: its width, height and RGB bytes.

    Args:
        prompts: to be asked.
        shown: their pictures as PIL images, settled.
    """
    written = [[p.prefix, p.suffix, *(each.digest for each in p.pictures)] for p in prompts]
    pictures = {
        each.digest: [*shown[each].size, b64encode(shown[each].tobytes()).decode()]
        for prompt in prompts
        for each in prompt.pictures
    }
    return {"prompts": written, **({"pictures": pictures} if pictures else {})}


def prompts_of(request: Mapping[str, Any]) -> list[Prompt]:
    """Undoes ``request_of``; pictures are PIL images again."""
    pictures = {}
    for digest, (width, height, written) in request.get("pictures", {}).items():
        from PIL import Image

        image = Image.frombytes("RGB", (width, height), b64decode(written))
        pictures[digest] = Picture(digest, image)
    return [
        Prompt(prefix, suffix, tuple(pictures[digest] for digest in digests))
        for prefix, suffix, *digests in request["prompts"]
    ]
