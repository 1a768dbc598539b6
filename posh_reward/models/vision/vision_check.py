"""A check that shared states give each prompt about an image the answer it would get alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from posh_reward.errors import JudgeError
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.models.packed.placement import alike, checking
from posh_reward.models.prompt_images import image_of
from posh_reward.models.vision.image_runner import ImageRunner
from posh_reward.models.vision.image_states import ImageStates
from posh_reward.models.vision.image_tokens import ImageTokens
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    pass

ATTENTION = ("sdpa", "eager")
"""Implementations that take a mask."""


@torch.inference_mode()
def check_seeing(runner: ImageRunner, chat: Chat) -> None:
    """Compare two questions about a small image with a plain pass for each.

    Raises:
        JudgeError: the answers differ, or the model cannot be asked in this way.
    """
    model = runner.model
    config = model.config.get_text_config()
    no_autocast = torch.autocast(model.device.type, enabled=False)
    with checking(model, "answer prompts with images") as unfit, no_autocast:
        if config._attn_implementation not in ATTENTION:
            raise unfit("load it with attn_implementation='sdpa'")
        if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
            raise unfit("its attention slides")
        prompts = [_sample(runner, chat, word) for word in ("a dog", "red")]
        plain = torch.cat([_plain(runner, prompt) for prompt in prompts])
        states = runner.look(prompts[0])
        assert isinstance(states, ImageStates), states
        rows = [prompt.prefix + prompt.own for prompt in prompts]
        logits, _ = runner.ends(ImageStates(states), rows)
        if not alike(logits, plain):
            raise unfit("its answers differ")
    runner.computed = 0


def _sample(runner: ImageRunner, chat: Chat, word: str) -> ImageTokens:
    """A question about an image that is wider than high, as positions depend on its shape."""
    side = runner.encoder.sizes.factor
    image = Image.linear_gradient("L").resize((3 * side, 2 * side))
    prompt_image = image_of(image)
    assert isinstance(prompt_image, PromptImage)
    prompt = Prompt("Look.\n\n", f"Q: Is it {word}?", (prompt_image,))
    [(ids, shared)] = chat.split([prompt])
    tokens = runner.encoder.tokens(prompt, ids, shared)
    if isinstance(tokens, Failure):
        raise JudgeError(f"{type(runner.model).__name__} cannot be shown images: {tokens}")
    return tokens


def _plain(runner: ImageRunner, prompt: ImageTokens) -> torch.Tensor:
    """Logits (1, vocabulary) after a prompt, as transformers computes them."""
    patches = runner.encoder.patches(prompt.images)
    assert not isinstance(patches, Failure), patches
    pixels, grid = patches
    device = runner.model.device
    ids = torch.tensor([prompt.stem + prompt.prefix + prompt.own], device=device)
    model: Any = runner.model
    logits: torch.Tensor = model(
        input_ids=ids,
        pixel_values=pixels.to(device),
        image_grid_thw=grid.to(device),
        mm_token_type_ids=(ids == runner.encoder.placeholder).int(),
        use_cache=False,
    ).logits
    return logits[:, -1].float()
