"""Packed prompts get the answers that each would get alone, and each token is computed once."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from posh_reward import ConfigError, InputError, JudgeError, PoSh, types
from posh_reward.models import asker
from posh_reward.models.asker import CachingModel
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt, label_tokens
from posh_reward.models.packed import TransformersModel, runner
from posh_reward.models.packed.packing import Pack
from posh_reward.models.packed.runner import NO_ROOM
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.posh.wording import build_prompt, build_rewrite_prompt
from posh_reward.store import Store
from tests.models.tiny import byte_tokenizer, masses, tiny_model
from tests.stores import rows_by_kind

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DIGITS = ("1", "2", "3", "4", "5")
SCENE = "A tall man in a red coat holds a cup. Two dogs sleep beside him; the small one is brown."
TOKENIZER = byte_tokenizer()


def described(text: str) -> types.Description:
    return types.Description(text, types.SceneGraph((), ()))


def questions(preset: str = "released", generations: int = 2) -> list[Prompt]:
    """Questions in both directions, about generations of unequal length for one reference."""
    reference = described(SCENE)
    prompts = []
    for number in range(generations):
        generation = described("A man. " * number + "He holds a cup of tea.")
        for thing in ("man", "a very long red coat", "cup", "the dogs"):
            ask = types.Question("precision", "entity", thing, generation, reference, 0)
            red = "red" * number
            told = types.Question("recall", "attribute", thing, reference, generation, 0, red)
            prompts += [build_prompt(ask, preset), build_prompt(told, preset)]
    return sorted(set(prompts), key=lambda p: (p.prefix, p.suffix))


def phrases(preset: str = "released") -> list[Prompt]:
    texts = ("man tall", "man small", "coat red", "dog brown small", "x")
    return [build_rewrite_prompt(types.Phrase(text, "attribute"), preset) for text in texts]


@torch.inference_mode()
def alone(model: PreTrainedModel, prompts: Sequence[Prompt], tokenizer: Any) -> torch.Tensor:
    """(prompts, labels) probabilities of the labels, with a forward pass for each prompt."""
    tokens = label_tokens(tokenizer, DIGITS)
    rows = []
    for ids in Chat(tokenizer).encode(prompts):
        whole = model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
        rows.append([whole[list(of)].sum().item() for of in tokens])
    return torch.tensor(rows)


def trie_size(prompts: Sequence[Prompt], tokenizer: Any = TOKENIZER) -> int:
    every = Chat(tokenizer).encode(prompts)
    return len({tuple(ids[:end]) for ids in every for end in range(1, len(ids) + 1)})


def judge_of(model: PreTrainedModel, **options: Any) -> TransformersModel:
    return TransformersModel.of(model, TOKENIZER, "tiny", **options)


@pytest.mark.parametrize(("preset", "budget"), [("prefix-first", 8192), ("released", 100)])
def test_grades_are_those_of_each_prompt_alone(preset: str, budget: int) -> None:
    model, prompts = tiny_model(TOKENIZER), questions(preset)
    judge = judge_of(model, max_batch_tokens=budget)
    told = masses(judge.choose(prompts, DIGITS))
    torch.testing.assert_close(told, alone(model, prompts, TOKENIZER), atol=1e-6, rtol=1e-4)
    assert judge.usage.prompt_tokens_computed == trie_size(prompts)
    submitted = sum(map(len, Chat(TOKENIZER).encode(prompts)))
    assert judge.usage.prompt_tokens_submitted == submitted
    assert judge.usage.tokens_decoded == len(prompts)


@pytest.mark.parametrize(
    "changes",
    [{"num_key_value_heads": 4},
     {"use_sliding_window": True, "sliding_window": 30, "max_window_layers": 1}],
)  # fmt: skip
def test_other_shapes_of_attention(changes: dict[str, Any]) -> None:
    model, prompts = tiny_model(TOKENIZER, **changes), questions()
    told = masses(judge_of(model, max_batch_tokens=300).choose(prompts, DIGITS))
    torch.testing.assert_close(told, alone(model, prompts, TOKENIZER), atol=1e-6, rtol=1e-4)


def test_gemmas_windows_are_packed_and_its_soft_caps_refused() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": len(TOKENIZER), "hidden_size": 64, "intermediate_size": 128, "head_dim": 16,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
        "sliding_window": 30, "initializer_range": 0.2,
    }  # fmt: skip
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    gemma3 = Gemma3ForCausalLM(Gemma3TextConfig(**shape, layer_types=kinds)).eval()
    told = masses(judge_of(gemma3, max_batch_tokens=300).choose(questions(), DIGITS))
    torch.testing.assert_close(told, alone(gemma3, questions(), TOKENIZER), atol=1e-6, rtol=1e-4)
    with pytest.raises(JudgeError, match="needs softcap"):
        judge_of(Gemma2ForCausalLM(Gemma2Config(**shape))).wake()


def test_prefixes_are_kept_for_later_calls() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    judge = judge_of(model)
    first, second = prompts[::2], prompts[1::2]
    judge.choose(first, DIGITS)
    before = judge.usage.prompt_tokens_computed
    told = masses(judge.choose(second, DIGITS))
    torch.testing.assert_close(told, alone(model, second, TOKENIZER), atol=1e-6, rtol=1e-4)
    starts = [Prompt(p.prefix, "") for p in prompts]
    tail = len(Chat(TOKENIZER).encode([Prompt("", "")])[0])
    suffixes = sum(len(p.suffix) + tail for p in second)
    assert judge.usage.prompt_tokens_computed - before < suffixes < trie_size(starts + second)


def test_little_room_costs_time_but_no_accuracy() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    longest = max(map(len, Chat(TOKENIZER).encode(prompts)))
    per_token = 2 * 2 * 2 * 16 * 4
    judge = judge_of(model, memory_gb=(longest + 50) * per_token / 2**30, max_batch_tokens=300)
    random.Random(0).shuffle(prompts)
    for _ in range(2):
        told = masses(judge.choose(prompts, DIGITS))
        torch.testing.assert_close(told, alone(model, prompts, TOKENIZER), atol=1e-6, rtol=1e-4)
    assert judge.usage.prompt_tokens_computed > trie_size(prompts)


def test_without_room_for_the_longest_only_those_fail() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    lengths = list(map(len, Chat(TOKENIZER).encode(prompts)))
    room = sorted(set(lengths))[-3]
    judge = judge_of(model, memory_gb=room * 512 / 2**30)
    failures = [verdict.failure for verdict in judge.choose(prompts, DIGITS)]
    assert failures == [NO_ROOM if length > room else None for length in lengths]


def test_prompts_too_long_fail_alone_for_one_reason() -> None:
    prompts = questions()
    lengths = list(map(len, Chat(TOKENIZER).encode(prompts)))
    room = sorted(set(lengths))[-3]
    model = tiny_model(TOKENIZER, max_position_embeddings=room)
    why = types.Failure("prompt", f"the prompt is longer than the model's context of {room} tokens")
    failures = [verdict.failure for verdict in judge_of(model).choose(prompts, DIGITS)]
    assert failures == [why if length > room else None for length in lengths]


def test_nan_fails_only_the_prompts_that_hold_it() -> None:
    """One word's weights are NaN: prompts with that word fail, and no other."""
    tokenizer = byte_tokenizer()
    model = tiny_model(tokenizer)
    with torch.no_grad():
        model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("~")] = float("nan")
    sound = questions()
    bad = [Prompt(p.prefix, p.suffix.replace("man", "m~n")) for p in sound if "man" in p.suffix]
    judge = TransformersModel.of(model, tokenizer, "tiny")
    verdicts = judge.choose(sound + bad, DIGITS)
    assert [v.failure is None for v in verdicts] == [True] * len(sound) + [False] * len(bad)
    [good, spoilt] = judge.write([Prompt("Rewrite ", "a"), Prompt("Rewrite ", "~")], 3)
    assert good.failure is None
    assert spoilt.text is None


def memory_for(model: PreTrainedModel, tokens: int) -> None:
    """Makes passes with more tokens than this run out of memory."""

    def check(_module: object, _inputs: object, given: dict[str, Any]) -> None:
        if given["input_ids"].shape[1] > tokens:
            raise torch.OutOfMemoryError(f"no room for more than {tokens} tokens")

    model.register_forward_pre_hook(check, with_kwargs=True)


def test_passes_shrink_when_memory_runs_out() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    expected = alone(model, prompts, TOKENIZER)
    judge = judge_of(model)
    judge.wake()
    memory_for(model, 300)
    told = masses(judge.choose(prompts, DIGITS))
    torch.testing.assert_close(told, expected, atol=1e-6, rtol=1e-4)
    assert judge.usage.prompt_tokens_computed == trie_size(prompts)


def test_a_pass_without_memory_is_freed_before_its_halves_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, packs, alive = tiny_model(TOKENIZER), WeakSet[Pack](), []
    judge = judge_of(model)
    judge.wake()
    memory_for(model, 300)
    run = Pack.run

    def note(pack: Pack, model: PreTrainedModel) -> torch.Tensor:
        packs.add(pack)
        alive.append(len(packs))
        return run(pack, model)

    monkeypatch.setattr(Pack, "run", note)
    judge.choose(questions(), DIGITS)
    assert len(alive) > 1
    assert set(alive) == {1}


@pytest.mark.parametrize("write", [False, True])
def test_a_kill_costs_only_the_last_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    monkeypatch.setattr(runner, "COLLECT_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(runner, "REPLIES_AT_ONCE", 1)
    monkeypatch.setattr(asker, "WRITE_INTERVAL_SECONDS", 0.0)
    store = tmp_path / "store"
    model, prompts = tiny_model(TOKENIZER), phrases() if write else questions()

    def answers(model: PreTrainedModel) -> Sequence[types.Verdict | types.Reply]:
        ask = CachingModel(judge_of(model, max_batch_tokens=100), Store(store))
        return ask.write(prompts, 4) if write else ask.choose(prompts, DIGITS)

    kept: list[int] = []

    def check(_module: object, _inputs: object) -> None:
        if store.exists():
            kept.append(sum(rows_by_kind(store).values()))
        if kept and kept[-1] >= 2:
            raise KeyboardInterrupt  # a kill here would leave what is stored by now

    hook = model.register_forward_pre_hook(check)
    with pytest.raises(KeyboardInterrupt):
        answers(model)
    hook.remove()
    assert 2 <= kept[-1] < len(prompts)
    assert all(each.failure is None for each in answers(model))


def test_without_any_memory_judgments_fail_with_the_reason() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    judge = judge_of(model)
    judge.wake()
    memory_for(model, 10)
    assert {v.failure is not None for v in judge.choose(prompts, DIGITS)} == {True}
    [reply, *_] = judge.write(phrases(), 5)
    assert "out of memory" in str(reply.failure)
    model._forward_pre_hooks.clear()
    model._forward_pre_hooks_with_kwargs.clear()
    assert all(v.failure is None for v in judge.choose(prompts, DIGITS))


def test_replies_are_greedy() -> None:
    model = tiny_model(TOKENIZER)
    judge, expected = judge_of(model), []
    for ids in Chat(TOKENIZER).encode(phrases()):
        whole = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=12, do_sample=False, eos_token_id=TOKENIZER.eos_token_id,
            pad_token_id=0,
        )  # fmt: skip
        expected.append(TOKENIZER.decode(whole[0, len(ids) :], skip_special_tokens=True).strip())
    assert [reply.text for reply in judge.write(phrases(), 12)] == expected
    assert judge.usage.prompt_tokens_computed == trie_size(phrases())
    assert 5 < judge.usage.tokens_decoded <= 60


def test_replies_that_memory_cuts_short_fail() -> None:
    model, prompts = tiny_model(TOKENIZER), phrases()
    judge = judge_of(model)
    judge.wake()
    whole = judge.write(prompts, 12)
    passes = iter(range(100))

    def check(_module: object, _inputs: object) -> None:
        if next(passes) > 3:
            raise torch.OutOfMemoryError("no room")

    hook = model.register_forward_pre_hook(check)
    assert {reply.failure is None for reply in judge.write(prompts, 12)} == {False}
    hook.remove()
    assert judge.write(prompts, 12) == whole


def test_a_reply_ends_at_the_end_of_the_turn() -> None:
    """The template knows it, even if neither the tokenizer nor the model says so."""
    tokenizer, [asked, *_] = byte_tokenizer(), phrases()
    tokenizer.eos_token = "</think>"
    model = tiny_model(tokenizer)
    turn_end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    with torch.inference_mode():
        logits = model(torch.tensor(Chat(tokenizer).encode([asked]))).logits[0, -1]
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head[turn_end] = 2 * head[logits.argmax()]  # now the likeliest
    judge = TransformersModel.of(model, tokenizer, "tiny")
    [reply] = judge.write([asked], 6)
    assert judge.usage.tokens_decoded == 1
    assert reply.text == ""


def test_sleeping_gives_up_states_and_waking_works() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    judge = judge_of(model)
    judge.sleep()
    first = judge.choose(prompts, DIGITS)
    judge.sleep()
    judge.sleep()
    judge.wake()
    assert judge.choose(prompts, DIGITS) == first
    assert judge.usage.prompt_tokens_computed == 2 * trie_size(prompts)
    judge.close()


def saved(folder: Path) -> Path:
    tiny_model(TOKENIZER).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def test_a_saved_model_is_loaded_and_pickled(tmp_path: Path) -> None:
    settings = {"name": "transformers", "model": str(saved(tmp_path)), "device": "cpu"}
    judge = load_judge(settings)
    assert isinstance(judge, PromptJudge)
    first = judge.model.choose(questions(), DIGITS)
    assert judge.usage.tokens_decoded
    told, expected = masses(first), alone(tiny_model(TOKENIZER), questions(), TOKENIZER)
    torch.testing.assert_close(told, expected, atol=1e-6, rtol=1e-4)
    assert f":{tmp_path.name}@sha256-" in judge.name
    assert judge.name.endswith(":float32:labels")
    again = pickle.loads(pickle.dumps(judge))
    assert len(pickle.dumps(again)) < 10_000
    assert again.name == judge.name
    assert again.usage == types.Usage()
    assert again.model.choose(questions(), DIGITS) == first


def test_weights_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    weights = saved(tmp_path) / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    metric = PoSh({"name": "transformers", "model": str(tmp_path), "device": "cpu"})
    with pytest.raises(JudgeError, match=r"cannot be loaded: .*not fully covered"):
        metric.score(["A dog."], ["A dog sits."])


def test_what_the_name_says_is_what_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the branch moves in between, in this process or in one that got a pickle."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    cached = tmp_path / "models--someone--tiny"
    branch, before, after = cached / "refs" / "main", "a" * 40, "b" * 40
    branch.parent.mkdir(parents=True)
    branch.write_text(before)
    saved(cached / "snapshots" / before)
    tiny_model(TOKENIZER, initializer_range=0.4).save_pretrained(cached / "snapshots" / after)
    TOKENIZER.save_pretrained(cached / "snapshots" / after)
    judge = TransformersModel("someone/tiny", device="cpu")
    assert f":someone/tiny@{before}:" in judge.name
    branch.write_text(after)
    expected = judge_of(tiny_model(TOKENIZER)).choose(questions(), DIGITS)
    for each in (judge, pickle.loads(pickle.dumps(judge))):
        assert each.choose(questions(), DIGITS) == expected
        assert before in each.name
    assert after in TransformersModel("someone/tiny", device="cpu").name


def test_a_trainer_that_divides_its_weights_leaves_the_judge_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ZeRO-3 on, transformers would ask DeepSpeed to divide the judge, too."""
    from transformers.integrations import deepspeed

    class Zero3:
        config: ClassVar[dict[str, Any]] = {"zero_optimization": {"stage": 3}}

        def is_zero3(self) -> bool:
            return True

    trainers = Zero3()
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    deepspeed.set_hf_deepspeed_config(trainers)
    try:
        judge = TransformersModel(str(saved(tmp_path)), device="cpu")
        assert judge.choose(questions()[:1], DIGITS)[0].failure is None
        assert deepspeed.is_deepspeed_zero3_enabled()
        assert os.environ["ACCELERATE_USE_FSDP"] == "true"
    finally:
        deepspeed.unset_hf_deepspeed_config()


def test_mixed_precision_around_it_changes_nothing() -> None:
    model = tiny_model(TOKENIZER)
    expected = judge_of(model).choose(questions(), DIGITS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert judge_of(model).choose(questions(), DIGITS) == expected


def test_a_missing_library_or_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="there is no folder"):
        TransformersModel(str(tmp_path / "nowhere")).wake()
    with pytest.raises(JudgeError, match="is a GGUF file: serve it with llama-server"):
        TransformersModel(str(tmp_path / "some.gguf")).wake()
    folder = saved(tmp_path)
    with pytest.raises(ConfigError, match="'cuda:99'"):
        TransformersModel(str(folder), device="cuda:99").wake()
    for dtype in ("int8", "float8_e4m3fn"):
        with pytest.raises(ConfigError, match=f"dtype '{dtype}'"):
            TransformersModel(str(folder), dtype=dtype).wake()
    with pytest.raises(InputError, match="unknown reading 'lables'"):
        TransformersModel(str(folder), reading="lables")  # type: ignore[arg-type]
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(JudgeError, match="safetensors"):
        TransformersModel(str(folder), device="cpu").wake()
    from transformers import LlamaConfig

    LlamaConfig(hidden_size=32, num_hidden_layers=1).save_pretrained(tmp_path / "mute")
    with pytest.raises(JudgeError, match=r"from one of: .*You need to have .*\(use a folder with"):
        TransformersModel(str(tmp_path / "mute"), device="cpu").wake()
    with pytest.raises(InputError, match="is a folder: write a settings file with `name: transf"):
        load_judge(str(folder))
    (folder / "judge.yaml").write_text("name: transformers")
    with pytest.raises(InputError, match=r"is a folder: name its settings, .*judge\.yaml"):
        load_judge(str(folder))
    with pytest.raises(InputError, match=r"is a GGUF file: serve it with llama-server"):
        load_judge("some.gguf")


def test_a_model_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["vocab_size"] = 10**11
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(JudgeError, match=r"needs \d+\.\d GB, and cpu has"):
        TransformersModel(str(tmp_path), device="cpu").wake()


def test_models_that_cannot_be_packed_are_refused() -> None:
    """One has no attention; the other has, but mixes tokens elsewhere as well."""
    from transformers import MambaConfig, MambaForCausalLM

    shape = MambaConfig(vocab_size=len(TOKENIZER), hidden_size=32, num_hidden_layers=1)
    mamba = MambaForCausalLM(shape)
    with pytest.raises(JudgeError, match="0 of its 1 layers"):
        judge_of(mamba).wake()
    mixing = tiny_model(TOKENIZER)
    mixing.model.norm.register_forward_hook(lambda _module, _inputs, out: out.cumsum(1))
    with pytest.raises(JudgeError, match="its answers differ"):
        judge_of(mixing).wake()


@pytest.mark.gpu
def test_while_it_sleeps_the_card_is_free() -> None:
    model = tiny_model(TOKENIZER, hidden_size=1024, intermediate_size=4096).to("cuda")
    judge, prompts = judge_of(model), questions()
    before = masses(judge.choose(prompts, DIGITS))
    judge.sleep()
    assert torch.cuda.memory_allocated() < 2**20
    judge.wake()
    torch.testing.assert_close(masses(judge.choose(prompts, DIGITS)), before, atol=1e-6, rtol=1e-4)


@pytest.mark.gpu
def test_a_card_answers_as_the_cpu_does() -> None:
    model, prompts = tiny_model(TOKENIZER), questions()
    expected = alone(model, prompts, TOKENIZER)
    told = masses(judge_of(model.to("cuda")).choose(prompts, DIGITS))
    torch.testing.assert_close(told, expected, atol=1e-5, rtol=1e-3)
