"""vLLM itself is shown images: a CPU build, and models that see of three layers. Two minutes.

The environment is the one of CONTRIBUTING.md, with torchvision kept::

    POSH_VLLM_PYTHON=ENV/bin/python pytest --run-vllm tests/models/test_vllm_sees_real.py -s
"""

from pathlib import Path
from typing import Any

import pytest

from posh_reward.models.model import Prompt
from posh_reward.models.packed import TransformersModel
from posh_reward.models.server import ServerModel
from posh_reward.models.server.server_http import PROMPT_TOO_LONG
from posh_reward.models.vllm import VllmModel
from posh_reward.types import PromptImage
from tests.models.test_real_weights import NAME, serving
from tests.models.tiny_vl import (
    KINDS,
    MAX_PIXELS,
    image_processor,
    images_of_four_sizes,
    save_seeing,
    seeing_tokenizer,
)

pytestmark = pytest.mark.vllm

LABELS = ("1", "2", "3", "4", "5")
CLOSE = 1e-3
SHAPE: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1}
"""vLLM's attention on a CPU wants heads of at least 32."""


def questions() -> list[Prompt]:
    """About images of several sizes, one of them shrunk; about two at once; about none."""
    rules = "Answer with an integer from 1 to 5.\n\n" * 4
    images = images_of_four_sizes()
    return [
        Prompt(rules, f"Q: Is {thing} there?", those)
        for those in ((), *((each,) for each in images), images[:2])
        for thing in ("a cat", "a long red coat", "it")
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_transformers(vllm_python: str, tmp_path: Path, kind: str) -> None:
    plain = save_seeing(tmp_path / "tiny", kind, **SHAPE)
    options: dict[str, Any] = {"max_pixels": MAX_PIXELS}
    expected = TransformersModel.of(
        plain, seeing_tokenizer(), "tiny", images=image_processor(), **options
    )
    model = VllmModel(
        str(tmp_path / "tiny"), python=vllm_python, dtype="float32", memory_gb=0.25,
        max_model_len=1024, enforce_eager=True, **options,
    )  # fmt: skip
    assert model.sees
    asked = questions()
    found, right = model.choose(asked, LABELS), expected.choose(asked, LABELS)
    worst = 0.0
    for one, other in zip(found, right, strict=True):
        assert one.probabilities is not None, one.failure
        assert other.probabilities is not None, other.failure
        assert one.probabilities == pytest.approx(other.probabilities, abs=CLOSE)
        pairs = zip(one.probabilities, other.probabilities, strict=True)
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    print(f"\n{kind}: {len(asked)} verdicts, worst by {worst:.1e}; {model.usage}")
    assert model.usage.prompt_tokens_submitted == expected.usage.prompt_tokens_submitted
    assert model.usage.prompt_tokens_computed < model.usage.prompt_tokens_submitted
    assert [r.text for r in model.write(asked, 6)] == [r.text for r in expected.write(asked, 6)]
    odd = Prompt("", "Q: Is it?", (PromptImage("0dd", object()),))
    failed, sound = model.choose([odd, asked[-1]], LABELS)
    assert "not a PIL image" in str(failed.failure)
    assert sound.probabilities == pytest.approx(found[-1].probabilities, abs=CLOSE)
    model.close()


def test_a_server_gives_the_same_verdicts(
    vllm_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About images in sizes that its processor leaves as they are."""
    plain = save_seeing(tmp_path, "qwen2_5_vl", **SHAPE)
    expected = TransformersModel.of(plain, seeing_tokenizer(), "tiny", images=image_processor())
    asked = questions()
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    with serving(vllm_python, tmp_path, tmp_path / "log") as url:
        model = ServerModel(url, NAME, images=True, reading="labels", concurrency=4)
        found, right = model.choose(asked, LABELS), expected.choose(asked, LABELS)
        long = Prompt("Look. " * 100, "Q: Is it?", asked[-1].images)
        refused, sound = model.choose([long, asked[-1]], LABELS)
    for one, other in zip(found, right, strict=True):
        assert one.probabilities is not None, one.failure
        assert one.probabilities == pytest.approx(other.probabilities, abs=CLOSE)
    print(f"\n{len(found)} verdicts over HTTP, {model.usage}")
    assert str(refused.failure) == PROMPT_TOO_LONG
    assert sound.probabilities == pytest.approx(found[-1].probabilities, abs=CLOSE)
