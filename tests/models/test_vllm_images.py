"""Images reach vLLM's process as they are to be seen; with a small engine in it."""

from typing import Any

import pytest
from PIL import Image

from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits, image_of, resize_for_model
from posh_reward.models.vllm.vllm_engine import RETOKENISED, ImageInputs, input_of, with_cost
from posh_reward.models.vllm.vllm_worker import EngineReply, parse_prompts, prompts_json
from posh_reward.types import PromptImage
from tests.models.children import LABELS, Make, prompts
from tests.models.stand_in import SIZES, masses


def prompt_image(width: int = 30, height: int = 20) -> PromptImage:
    found = image_of(Image.effect_noise((width, height), 60))
    assert isinstance(found, PromptImage)
    return found


SMALL, LARGE = prompt_image(), prompt_image(90, 60)


def right(prompt: Prompt) -> list[float]:
    """The probabilities that a sound engine gives, which depend on each byte that it sees."""
    images = [resize_for_model(each.image, *SIZES) for each in prompt.images]  # type: ignore[arg-type]
    found = masses(prompt.text, len(LABELS), sum(sum(image.tobytes()) for image in images))
    return [mass / sum(found) for mass in found]


def test_images_are_seen_to_the_last_byte(make: Make) -> None:
    model = make("sees")
    assert model.sees
    asked = [
        prompt._replace(images=prompt_images)
        for prompt_images in ((), (SMALL,), (LARGE,), (LARGE, SMALL))
        for prompt in prompts("dog", "cat")
    ]
    for prompt, verdict in zip(asked, model.choose(asked, LABELS), strict=True):
        assert verdict.probabilities == pytest.approx(right(prompt))
    [reply] = model.write([Prompt("", "sizes", (SMALL, LARGE))], 20)
    assert reply.text == "(32, 16) (48, 32)", "multiples of 8, of at most 2000 pixels"


def test_an_image_crosses_the_pipe_once() -> None:
    asked = [Prompt("Look. ", word, (SMALL,)) for word in "abc"]
    request = prompts_json(asked, {SMALL: SMALL.image})
    assert list(request["images"]) == [SMALL.digest]
    back = parse_prompts(request)
    assert back == asked
    assert {image_of(each.images[0].image) for each in back} == {SMALL}
    assert "images" not in prompts_json(prompts("dog"), {})


def test_an_image_that_cannot_be_shown_fails_alone(make: Make) -> None:
    odd = PromptImage("0dd", object())
    thin = prompt_image(4000, 10)
    asked = [Prompt("", "dog", (each,)) for each in (odd, SMALL, thin)]
    first, sound, last = make("sees").choose(asked, LABELS)
    assert "object is not a PIL image" in str(first.failure)
    assert sound.probabilities == pytest.approx(right(asked[1]))
    assert "too long and thin" in str(last.failure)


SIGHT = ImageInputs(SizeLimits(*SIZES), placeholder=7)


def test_vllm_gets_one_placeholder_an_image_and_its_digest() -> None:
    prompt = Prompt("", "dog", (SMALL, LARGE))
    given = input_of(prompt, [1, 7, 2, 7, 3])
    assert given["prompt_token_ids"].count(7) == 2
    assert given["multi_modal_data"]["image"] == [SMALL.image, LARGE.image]
    assert given["multi_modal_uuids"]["image"] == [SMALL.digest, LARGE.digest]
    assert input_of(Prompt("", "dog"), [1]) == {"prompt_token_ids": [1]}
    settled_ones = Prompt("", "dog", (prompt_image(32, 16), prompt_image(48, 32)))
    assert SIGHT.tokens(settled_ones) == 4 * 2 + 6 * 4 - 2


def test_other_tokens_than_were_asked_for_are_no_answer() -> None:
    """A placeholder that is expanded twice shows in the number of tokens (huggingface/trl#6294)."""

    class Reply:
        prompt_token_ids = (1,) * 12
        num_cached_tokens = 4
        outputs: tuple[Any, ...] = (type("Output", (), {"token_ids": [5]})(),)

    given = EngineReply(masses=(0.5, 0.5))
    answer = with_cost(given, Reply(), 12)
    assert (answer.submitted, answer.computed, answer.masses) == (12, 8, given.masses)
    assert with_cost(given, Reply(), 9).failure == RETOKENISED
