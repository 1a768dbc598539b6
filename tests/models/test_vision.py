"""Prompts with images get the answers that each gets alone; each image is computed once."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from posh_reward import InputError, JudgeError
from posh_reward.models.asker import CachingModel
from posh_reward.models.model import Prompt, label_tokens, load_model
from posh_reward.models.packed import TransformersModel
from posh_reward.models.packed.runner import NO_ROOM, OUT_OF_MEMORY
from posh_reward.store import Store
from posh_reward.types import PromptImage, Verdict
from tests.models import tiny_vl
from tests.models.tiny import masses
from tests.models.tiny_vl import MAX_PIXELS, prompt_image

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DIGITS = ("1", "2", "3", "4", "5")
TOKENIZER = tiny_vl.seeing_tokenizer()
IMAGES = tiny_vl.images_of_four_sizes()
RULES = "Answer with an integer from 1 to 5.\n\n"


def questions(*shown: PromptImage, prefixes: Sequence[str] = (RULES,)) -> list[Prompt]:
    return [
        Prompt(prefix, f"Q: Is {thing} there?", (each,))
        for each in shown or IMAGES
        for prefix in prefixes
        for thing in ("a cat", "a very long red coat", "it")
    ]


def model_of(
    model: PreTrainedModel, max_pixels: int = MAX_PIXELS, **options: Any
) -> TransformersModel:
    options |= {"images": tiny_vl.image_processor(), "max_pixels": max_pixels}
    return TransformersModel.of(model, TOKENIZER, "tiny", **options)


@cache
def inputs(prompt: Prompt) -> dict[str, torch.Tensor]:
    """What transformers' own processor makes of a prompt."""
    from posh_reward.training.processors import image_processor_with

    images = tiny_vl.image_processor()
    images.size = {"shortest_edge": images.size["shortest_edge"], "longest_edge": MAX_PIXELS}
    processor: Any = image_processor_with(TOKENIZER, images)
    parts = [*({"type": "image"} for _ in prompt.images), {"type": "text", "text": prompt.text}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True, tokenize=False
    )
    seen = [prompt_image.image for prompt_image in prompt.images] or None
    made: dict[str, torch.Tensor] = processor(images=seen, text=[text], return_tensors="pt")
    return dict(made)


@torch.inference_mode()
def alone(model: PreTrainedModel, prompts: Sequence[Prompt]) -> torch.Tensor:
    """(prompts, labels) probabilities, with a plain forward pass for each prompt."""
    tokens = label_tokens(TOKENIZER, DIGITS)
    rows = []
    for prompt in prompts:
        whole = model(**inputs(prompt)).logits[0, -1].double().softmax(-1)
        rows.append([whole[list(of)].sum().item() for of in tokens])
    return torch.tensor(rows)


def assert_as_alone(
    told: Sequence[Verdict], model: PreTrainedModel, prompts: Sequence[Prompt]
) -> None:
    torch.testing.assert_close(masses(told), alone(model, prompts), atol=1e-6, rtol=1e-4)


def lengths(prompts: Sequence[Prompt]) -> list[int]:
    return [inputs(prompt)["input_ids"].shape[1] for prompt in prompts]


@pytest.mark.parametrize("kind", tiny_vl.KINDS)
def test_verdicts_are_those_of_a_plain_forward_pass(kind: str) -> None:
    """Images of several sizes, several in one prompt, and prompts without any, in any order."""
    model = tiny_vl.seeing_model(TOKENIZER, kind)
    prompts = questions(prefixes=(RULES, "Look well.\n"))
    prompts += [Prompt(RULES, "Q: Is it the same?", IMAGES[:2]), Prompt(RULES, "Q: Is it?")]
    random.Random(0).shuffle(prompts)
    judge = model_of(model)
    assert judge.sees
    told = judge.choose(prompts, DIGITS)
    assert_as_alone(told, model, prompts)
    assert judge.usage.prompt_tokens_submitted == sum(lengths(prompts))
    assert judge.usage.tokens_decoded == len(prompts)
    grades = [round(verdict.grade or 0, 4) for verdict in told]
    assert len(set(grades)) == len(prompts), "the model tells all of them apart"


def trie_size(prompts: Sequence[Prompt]) -> int:
    """Distinct beginnings of prompts, if different images are different tokens."""
    pad = TOKENIZER.convert_tokens_to_ids("<|image_pad|>")
    beginnings: set[object] = set()
    for prompt in prompts:
        [ids] = inputs(prompt)["input_ids"].tolist()
        before: object = ()
        for token in ids:
            before = (before, prompt.images if token == pad else token)
            beginnings.add(before)
    return len(beginnings)


@pytest.mark.parametrize("kind", tiny_vl.KINDS)
def test_an_image_is_computed_once(kind: str) -> None:
    """To the token, like any other common beginning of prompts."""
    model = tiny_vl.seeing_model(TOKENIZER, kind)
    judge = model_of(model)
    prefixes = (RULES, "Look well.\n")
    prompts = questions(*IMAGES[:2], prefixes=prefixes)
    looks = []
    model.model.visual.register_forward_hook(lambda *_: looks.append(1))
    judge.wake()
    looks.clear()
    judge.choose(prompts, DIGITS)
    assert len(looks) == 2
    assert judge.usage.prompt_tokens_computed == trie_size(prompts)
    judge.choose(questions(*IMAGES[:2]), DIGITS)
    assert len(looks) == 2, "and kept for later calls"
    judge.sleep()
    judge.choose(questions(*IMAGES[:1]), DIGITS)
    assert len(looks) == 3, "until it sleeps"


def test_positions_are_those_of_transformers() -> None:
    """An image takes as many positions as its longer side has tokens, then text goes on."""
    model, prompt = tiny_vl.seeing_model(TOKENIZER), questions(IMAGES[2])[0]
    judge = model_of(model)
    judge.wake()
    given: list[torch.Tensor] = []
    model.model.language_model.register_forward_pre_hook(
        lambda _module, _inputs, options: given.append(options["position_ids"]), with_kwargs=True
    )
    judge.choose([prompt], DIGITS)
    whole = inputs(prompt)
    names = ("input_ids", "mm_token_type_ids", "image_grid_thw")
    expected, _ = model.model.get_rope_index(**{name: whole[name] for name in names})
    assert torch.equal(torch.cat(given, -1), expected)


@pytest.mark.parametrize("kind", tiny_vl.KINDS)
def test_replies_are_greedy(kind: str) -> None:
    model = tiny_vl.seeing_model(TOKENIZER, kind)
    prompts = [*questions(), Prompt(RULES, "Q: Which?")]
    expected = []
    for prompt in prompts:
        given = inputs(prompt)
        length = given["input_ids"].shape[1]
        whole = model.generate(
            **given, max_new_tokens=8, do_sample=False, eos_token_id=TOKENIZER.eos_token_id,
            pad_token_id=0,
        )  # fmt: skip
        expected.append(TOKENIZER.decode(whole[0, length:], skip_special_tokens=True).strip())
    judge = model_of(model)
    assert [reply.text for reply in judge.write(prompts, 8)] == expected
    assert len(prompts) < judge.usage.tokens_decoded <= 8 * len(prompts)


def test_an_image_that_cannot_be_shown_fails_alone() -> None:
    model = tiny_vl.seeing_model(TOKENIZER)
    odd = PromptImage("0dd", object())
    thin = prompt_image(tiny_vl.FACTOR * 300, tiny_vl.FACTOR)
    spoilt = PromptImage("5b01", type("Spoilt", (), {"size": (24, 16)})())
    bad = questions(odd, thin, spoilt)
    both = Prompt(RULES, "Q: Which?", (IMAGES[0], odd))
    judge = model_of(model)
    told = judge.choose([*bad, both, *questions()], DIGITS)
    reasons = [str(verdict.failure) for verdict in told[: len(bad) + 1]]
    assert all("object is not a PIL image" in reason for reason in (*reasons[:3], reasons[-1]))
    assert all("too long and thin: crop it" in reason for reason in reasons[3:6])
    assert all("Spoilt is not a PIL image" in reason for reason in reasons[6:9])
    assert_as_alone(told[len(bad) + 1 :], model, questions())
    [reply] = judge.write([bad[0]], 4)
    assert "not a PIL image" in str(reply.failure)


def test_a_placeholder_in_a_text_stays_text() -> None:
    model = tiny_vl.seeing_model(TOKENIZER)
    asked = [Prompt("<|image_pad|> <|vision_start|>", "Q: Is it?", p) for p in ((), IMAGES[:1])]
    for verdict in model_of(model).choose(asked, DIGITS):
        assert verdict.failure is None


def test_little_room_costs_time_but_no_accuracy() -> None:
    model, prompts = tiny_vl.seeing_model(TOKENIZER), questions(prefixes=(RULES, "Look well.\n"))
    judge = model_of(model)
    judge.choose(prompts, DIGITS)
    assert judge._loaded is not None
    per_token = judge._loaded.per_token
    longest = max(lengths(prompts))
    small = model_of(model, memory_gb=(longest + 5) * per_token / 2**30)
    random.Random(0).shuffle(prompts)
    for _ in range(2):
        assert_as_alone(small.choose(prompts, DIGITS), model, prompts)
    assert small.usage.prompt_tokens_computed > 2 * judge.usage.prompt_tokens_computed
    tiny = model_of(model, memory_gb=5 * per_token / 2**30)
    assert {verdict.failure for verdict in tiny.choose(prompts, DIGITS)} == {NO_ROOM}


def test_an_image_too_large_for_memory_fails_alone() -> None:
    model, prompts = tiny_vl.seeing_model(TOKENIZER), questions()
    judge = model_of(model)
    judge.wake()

    def check(_module: object, given: tuple[torch.Tensor]) -> None:
        if len(given[0]) > 32:  # patches; only the third image has so many
            raise torch.OutOfMemoryError("no room")

    hook = model.model.visual.register_forward_pre_hook(check)
    told = judge.choose(prompts, DIGITS)
    hook.remove()
    large = [prompt.images == IMAGES[2:3] for prompt in prompts]
    assert [verdict.failure == OUT_OF_MEMORY for verdict in told] == large
    sound = [verdict for verdict in told if verdict.failure is None]
    assert_as_alone(sound, model, [p for p in prompts if p.images != IMAGES[2:3]])


def test_one_image_may_be_twice_in_a_prompt() -> None:
    model, looks = tiny_vl.seeing_model(TOKENIZER), []
    first, second = IMAGES[:2]
    prompts = [Prompt(RULES, "Q: Is it?", each) for each in (
        (first, first), (first, second, first), (second, second), (first,),
    )]  # fmt: skip
    judge = model_of(model)
    judge.wake()
    model.model.visual.register_forward_hook(lambda *_: looks.append(1))
    told = judge.choose(prompts, DIGITS)
    assert len(looks) < 8
    assert_as_alone(told, model, prompts)


@pytest.mark.parametrize("kind", tiny_vl.KINDS)
def test_a_checkpoint_that_sees_simply_works(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "tiny"
    tiny_vl.save_seeing(folder, kind)
    settings = {"name": "transformers", "model": str(folder), "device": "cpu"}
    judge = load_model({**settings, "max_pixels": MAX_PIXELS})
    assert judge.sees
    assert judge.name.endswith(f":float32:labels:pixels-{MAX_PIXELS}")
    store = Store(tmp_path / "store")
    told = CachingModel(judge, store).choose(questions(), DIGITS)
    assert_as_alone(told, tiny_vl.seeing_model(TOKENIZER, kind), questions())
    again = pickle.loads(pickle.dumps(judge))
    assert (again.name, again.sees) == (judge.name, True)
    assert CachingModel(again, store).choose(questions(), DIGITS) == told
    assert again.usage.cache_hits == len(questions())
    assert again._loaded is None, "all from the store"
    other = load_model({**settings, "max_pixels": 4 * tiny_vl.FACTOR**2})
    assert CachingModel(other, store).choose(questions()[:1], DIGITS) != told[:1]
    assert other.usage.cache_hits == 0, "smaller images are other questions"


def test_a_model_whose_answers_would_differ_is_refused() -> None:
    model = tiny_vl.seeing_model(TOKENIZER)
    core: Any = model.model
    right = core.get_rope_index

    def wrong(*given: Any, **options: Any) -> Any:
        positions, shift = right(*given, **options)
        return positions * 3, shift

    core.get_rope_index = wrong
    with pytest.raises(JudgeError, match="its answers differ"):
        model_of(model).wake()
    with pytest.raises(InputError, match="max_pixels"):
        model_of(model, max_pixels=0)
    with pytest.raises(InputError, match=f"max_pixels is 3: .* so use {tiny_vl.FACTOR**2} or more"):
        model_of(model, max_pixels=3).wake()
