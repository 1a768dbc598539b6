"""A loaded model with its tokenizer, its runners, and its room for states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

PromptTokens = TextTokens | ImageTokens  # a prompt in tokens, without images or with them


@dataclass(frozen=True, slots=True)
class PackedModel:
    """Everything that exists once a model is loaded."""

    chat: Chat
    runner: TextRunner  # for prompts without images
    images: ImageRunner | None  # for prompts with images; None if the model does not see
    weights: PlacedWeights
    context: float  # length in tokens; infinity if the model does not say
    per_token: int  # bytes of a token's states

    @property
    def runners(self) -> list[TextRunner | ImageRunner]:
        """All that there are."""
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
        """True if there are no states."""
        return not (self.runner.states.layers or (self.images and self.images.cache))

    def clear(self, room: int) -> None:
        """Give up all states; from now on there is room for those of so many tokens."""
        for runner in self.runners:
            runner.clear(-(-room // len(self.runners)))

    def encode(self, prompts: Sequence[Prompt], reply: int) -> list[PromptTokens | Failure]:
        """Prompts in tokens; a failure for one that cannot be shown, or is too long for a reply."""
        too_long = Failure(
            "prompt", f"the prompt is longer than the model's context of {self.context} tokens"
        )
        encoded: list[PromptTokens | Failure] = []
        # A blind model's template has no place for images; prompts with images fail below.
        texts = prompts if self.images else [each._replace(images=()) for each in prompts]
        for prompt, (ids, shared) in zip(prompts, self.chat.split(texts), strict=True):
            each = self._tokens(prompt, ids, shared)
            long = not isinstance(each, Failure) and len(each) + reply > self.context
            encoded.append(too_long if long else each)
        return encoded

    def ask(
        self, encoded: Mapping[int, PromptTokens], ask: Callable[[Any, list[Any]], list[Any]]
    ) -> dict[int, Any]:
        """Answers of ``ask`` from the runner for each kind of prompt, by the prompts' indices."""
        answers: dict[int, Any] = {}
        for runner, kind in zip(self.runners, (TextTokens, ImageTokens), strict=False):
            some = {index: each for index, each in encoded.items() if isinstance(each, kind)}
            if some:
                answers.update(zip(some, ask(runner, [*some.values()]), strict=True))
        return answers

    def reply(self, reply: list[int] | Failure) -> Reply:
        """The text of a reply, stripped."""
        if isinstance(reply, Failure):
            return Reply(None, reply)
        text: str = self.chat.tokenizer.decode(reply, skip_special_tokens=True).strip()
        return Reply(text)

    def _tokens(self, prompt: Prompt, ids: list[int], shared: int) -> PromptTokens | Failure:
        if not prompt.images:
            return TextTokens.of(ids, shared)
        return self.images.encoder.tokens(prompt, ids, shared) if self.images else BLIND


def ready_model(
    model: PreTrainedModel, chat: Chat, images: Any, budget: int, max_pixels: int
) -> PackedModel:
    """Make a model ready, and check that each prompt gets the answer that it would get alone.

    Args:
        model: on its device; put into evaluation mode.
        chat: with its tokenizer.
        images: its image processor; None if it does not see.
        budget: most tokens in a forward pass.
        max_pixels: larger images are shrunk to this.

    Raises:
        JudgeError: it gives other answers, or cannot be asked in this way.
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
