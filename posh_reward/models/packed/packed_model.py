"""A loaded model with its tokenizer and runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posh_reward.models.asker import BLIND
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.models.packed.placement import PlacedWeights, check_packing, context_of
from posh_reward.models.packed.slots import TextTokens
from posh_reward.models.packed.text_runner import TextRunner
from posh_reward.models.vision.image_runner import ImageRunner
from posh_reward.models.vision.image_tokens import ImageEncoder, ImageTokens
from posh_reward.models.vision.vision_check import check_seeing
from posh_reward.types import Failure, Reply

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PromptTokens = TextTokens | ImageTokens  # a tokenised prompt, without or with images


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A loaded model and what computes its answers."""

    chat: Chat
    runner: TextRunner  # for prompts without images
    images: ImageRunner | None  # for prompts with images; None if the model is text-only
    weights: PlacedWeights
    context: float  # tokens; infinity if unknown
    per_token: int  # bytes of a token's states

    @property
    def runners(self) -> list[TextRunner | ImageRunner]:
        """The text runner and, for vision models, the image runner."""
        return [self.runner, *([self.images] if self.images else [])]

    @property
    def stops(self) -> set[int]:
        """Tokens that end a reply."""
        ends = getattr(self.runner.model.generation_config, "eos_token_id", None)
        several = ends if isinstance(ends, list) else [ends]
        stops = {*several, self.chat.tokenizer.eos_token_id, self.chat.turn_end}
        return {token for token in stops if token is not None}

    @property
    def is_empty(self) -> bool:
        """True if no states are stored."""
        return not (self.runner.states.layers or (self.images and self.images.cache))

    def clear(self, room: int) -> None:
        """Drop all states and make room for those of this many tokens."""
        for runner in self.runners:
            runner.clear(-(-room // len(self.runners)))

    def encode(self, prompts: Sequence[Prompt], reply: int) -> list[PromptTokens | Failure]:
        """Tokenise prompts; fail those with unusable images, or too long with ``reply`` tokens."""
        too_long = Failure(
            "prompt", f"the prompt is longer than the model's context of {self.context} tokens"
        )
        encoded: list[PromptTokens | Failure] = []
        # A text-only model's template cannot render images; prompts with images fail below.
        texts = prompts if self.images else [each._replace(images=()) for each in prompts]
        for prompt, (ids, shared) in zip(prompts, self.chat.split(texts), strict=True):
            each = self._tokens(prompt, ids, shared)
            long = not isinstance(each, Failure) and len(each) + reply > self.context
            encoded.append(too_long if long else each)
        return encoded

    def answers(
        self,
        encoded: Sequence[PromptTokens | Failure],
        ask: Callable[[Any, list[Any]], list[Any]],
    ) -> list[Any]:
        """Answers of ``ask(runner, prompts)``, in order; failures stay."""
        answers: list[Any] = list(encoded)
        for runner, kind in zip(self.runners, (TextTokens, ImageTokens), strict=False):
            indices = [index for index, each in enumerate(encoded) if isinstance(each, kind)]
            replies = ask(runner, [encoded[index] for index in indices]) if indices else []
            for index, reply in zip(indices, replies, strict=True):
                answers[index] = reply
        return answers

    def reply(self, ids: list[int] | Failure) -> Reply:
        """A reply's text, stripped."""
        if isinstance(ids, Failure):
            return Reply(None, ids)
        text: str = self.chat.tokenizer.decode(ids, skip_special_tokens=True).strip()
        return Reply(text)

    def _tokens(self, prompt: Prompt, ids: list[int], shared: int) -> PromptTokens | Failure:
        if not prompt.images:
            return TextTokens.of(ids, shared)
        return self.images.encoder.tokens(prompt, ids, shared) if self.images else BLIND


def ready_model(
    model: PreTrainedModel, chat: Chat, images: Any, budget: int, max_pixels: int
) -> PackedModel:
    """Prepare a model and check that packed prompts get the answers they would get alone.

    Args:
        model: on its device; put into evaluation mode.
        chat: with its tokenizer.
        images: its image processor; None for a text-only model.
        budget: most tokens in a forward pass.
        max_pixels: larger images are shrunk to this.

    Raises:
        JudgeError: answers differ, or the model does not support packing.
    """
    model.eval()
    per_token = check_packing(model, chat)
    prompt_images = None
    if images is not None:
        encoder = ImageEncoder(images, model.config.image_token_id, max_pixels)
        prompt_images = ImageRunner(model, encoder, budget)
        check_seeing(prompt_images, chat)
    runner = TextRunner(model, budget)
    return PackedModel(
        chat, runner, prompt_images, PlacedWeights(model), context_of(model), per_token
    )
