"""Check that prompts about a shared image get the answers they would get alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from posh_reward.errors import JudgeError
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.models.packed.placement import TOLERANCE
from posh_reward.models.prompt_images import image_of
from posh_reward.models.vision.image_runner import ImageRunner
from posh_reward.models.vision.image_states import ImageStates
from posh_reward.models.vision.image_tokens import ImageTokens
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ATTENTION = ("sdpa", "eager")  # implementations that accept a mask


@torch.inference_mode()
def check_seeing(runner: ImageRunner, chat: Chat) -> None:
    """Compare two questions about a small image with a plain pass for each.

    Raises:
        JudgeError: answers differ, or the model does not support shared states.
    """
    model = runner.model
    config = model.config.get_text_config()
    if config._attn_implementation not in ATTENTION:
        raise _unfit(model, "load it with attn_implementation='sdpa'")
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        raise _unfit(model, "it has sliding-window attention")
    prompts = [_sample(runner, chat, word) for word in ("a dog", "red")]
    try:
        with torch.autocast(model.device.type, enabled=False):
            plain = torch.cat([_plain(runner, prompt) for prompt in prompts])
            states = runner.look(prompts[0])
            assert isinstance(states, ImageStates), states
            logits, _ = runner.ends(
                ImageStates(states), [prompt.prefix + prompt.own for prompt in prompts]
            )
    except torch.OutOfMemoryError as error:
        raise JudgeError(f"the judge's model leaves no memory to run it: {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, RuntimeError) as error:
        raise _unfit(model, f"{type(error).__name__}: {error}") from error
    alike = (logits.float() - plain).square().mean().sqrt() <= TOLERANCE * plain.std()
    if not alike:  # also if they are NaN
        raise _unfit(model, "its answers differ")
    runner.computed = 0


def _sample(runner: ImageRunner, chat: Chat, word: str) -> ImageTokens:
    """A question about an image that is wider than high, since positions depend on its shape."""
    side = runner.encoder.sizes.factor
    prompt_image = image_of(Image.linear_gradient("L").resize((3 * side, 2 * side)))
    assert isinstance(prompt_image, PromptImage)
    prompt = Prompt("Look.\n\n", f"Q: Is it {word}?", (prompt_image,))
    [(ids, shared)] = chat.split([prompt])
    tokens = runner.encoder.tokens(prompt, ids, shared)
    if isinstance(tokens, Failure):
        raise JudgeError(f"{type(runner.model).__name__} cannot take images: {tokens}")
    return tokens


def _plain(runner: ImageRunner, prompt: ImageTokens) -> torch.Tensor:
    """Logits (1, vocabulary) after a prompt, by transformers alone."""
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


def _unfit(model: PreTrainedModel, reason: str) -> JudgeError:
    return JudgeError(
        f"{type(model).__name__} cannot answer prompts with images ({reason}): serve it with vLLM "
        "and use the judge 'server'"
    )
