"""Images on their way to the child, and how its model is shown them."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import NO_PLACE, SizeLimits, check_max_pixels, size_of
from posh_reward.types import Failure, PromptImage

AT_ONCE = 16
"""Images in one request, of a few megabytes each."""
MOST = 8
"""Images in one prompt."""
PATCHES_GB = 1.0
"""GiB of the host's memory for images in patches: forty of a megapixel. Questions about one
image come together, so vLLM's default of 4 would only be missing elsewhere."""
TOO_MANY = Failure("prompt", f"the prompt has more than {MOST} images")
RETOKENISED = Failure(
    "engine", "vLLM made another number of tokens of the images than they have parts"
)


@dataclass(frozen=True, slots=True)
class Sight:
    """How a model in vLLM is shown images: in which sizes, and in place of which token."""

    sizes: SizeLimits
    placeholder: int

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the engine. It leaves images as they are, since they are settled."""
        least, most = self.sizes.factor**2, self.sizes.max_pixels
        return {
            "limit_mm_per_prompt": {"image": MOST, "video": 0},
            "mm_processor_kwargs": {"min_pixels": least, "max_pixels": most},
            "mm_processor_cache_gb": PATCHES_GB,
        }

    def failure(self, prompt: Prompt, ids: Sequence[int]) -> Failure | None:
        """Why a prompt cannot be asked; None if it can."""
        if len(prompt.images) > MOST:
            return TOO_MANY
        places = sum(token == self.placeholder for token in ids)
        return None if places == len(prompt.images) else NO_PLACE

    def tokens(self, prompt: Prompt) -> int:
        """How many tokens its images, which are settled, add to the placeholder of each."""
        pixels = (math.prod(size_of(each)) for each in prompt.images)
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
    return Sight(SizeLimits(factor, min(least, max_pixels), max_pixels), config.image_token_id)


def portions(prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """The places of prompts, in order, in requests of up to ``AT_ONCE`` images."""
    portion: list[int] = []
    seen: set[PromptImage] = set()
    for place, prompt in enumerate(prompts):
        new = seen.union(prompt.images)
        if portion and len(new) > len(seen) and len(new) > AT_ONCE:
            yield portion
            portion, new = [], set(prompt.images)
        portion.append(place)
        seen = new
    if portion:
        yield portion


def request_of(prompts: Sequence[Prompt], shown: Mapping[PromptImage, Any]) -> dict[str, Any]:
    """Prompts as JSON, with each of their images once: its width, height and RGB bytes.

    Args:
        prompts: to be asked.
        shown: their images as PIL images, settled.
    """
    written = [[p.prefix, p.suffix, *(each.digest for each in p.images)] for p in prompts]
    images = {
        each.digest: [*shown[each].size, b64encode(shown[each].tobytes()).decode()]
        for prompt in prompts
        for each in prompt.images
    }
    return {"prompts": written, **({"images": images} if images else {})}


def prompts_of(request: Mapping[str, Any]) -> list[Prompt]:
    """Undoes ``request_of``; images are PIL images again."""
    images = {}
    for digest, (width, height, written) in request.get("images", {}).items():
        from PIL import Image

        image = Image.frombytes("RGB", (width, height), b64decode(written))
        images[digest] = PromptImage(digest, image)
    return [
        Prompt(prefix, suffix, tuple(images[digest] for digest in digests))
        for prefix, suffix, *digests in request["prompts"]
    ]
