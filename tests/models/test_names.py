"""Every setting of a judge is in its name, or changes no answer beyond rounding."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.models.packed import TransformersModel
from posh_reward.models.server import ServerModel
from posh_reward.models.vllm import VllmModel
from posh_reward.posh.cascade import Cascade
from posh_reward.posh.fake_judge import FakeJudge
from tests.models.tiny import byte_tokenizer, tiny_model
from tests.models.tiny_vl import seeing_model, seeing_tokenizer

NAMED: dict[type, dict[str, tuple[object, object]]] = {
    # Digests of both are in the name: tests/embedded/judge/test_encoder_features.py.
    EmbeddedJudge: {"encoder": (None, None), "weights": (None, None)},
    Cascade: {
        "judge": (FakeJudge(name="a"), FakeJudge(name="b")),
        "low": (1.5, 2.0),
        "high": (4.5, 4.8),
        "first": (None, FakeJudge(name="a")),
        "doubt": (None, None),  # counts only with a first judge: below
    },
    TransformersModel: {
        "model": ("one", "other"),
        "revision": (None, None),  # for a folder its fingerprint; a commit: test_transformers.py
        "dtype": ("float32", "bfloat16"),
        "reading": ("labels", "top-20"),
        "max_pixels": (1_000_000, 500_000),
    },
    VllmModel: {
        "model": ("someone/tiny", "someone/other"),
        "revision": ("v1", "v2"),
        "dtype": ("bfloat16", "float16"),
        "reading": ("labels", "top-20"),
        "max_pixels": (1_000_000, 500_000),
        "batch_invariant": (False, True),
    },
    ServerModel: {
        "model": ("a", "b"),
        "revision": ("a", "b"),
        "reading": ("labels", "top-20"),
        "images": (False, True),
        "max_pixels": (1_000_000, 500_000),
        "extra_body": ({}, {"seed": 1}),
    },
}
"""Settings on which answers depend, with two values that names must tell apart."""

IRRELEVANT: dict[type, set[str]] = {
    EmbeddedJudge: set(),
    Cascade: set(),
    # How prompts are packed and where: rounding.
    TransformersModel: {"device", "max_batch_tokens", "memory_gb", "sleep"},
    # Its vLLM's version is named; room, patience and kernels: failures and rounding.
    VllmModel: {
        "python", "memory_gb", "max_model_len", "sleep", "enforce_eager", "start_timeout",
        "timeout", "max_restarts",
    },
    # Which of several servers of one model, and how patiently; without labels it only writes.
    ServerModel: {
        "base_urls", "api_key_env", "concurrency", "timeout", "retries", "backoff", "labels",
    },
}  # fmt: skip


@pytest.mark.parametrize("judge", NAMED, ids=lambda judge: judge.__name__)
def test_every_setting_is_named_or_said_to_be_irrelevant(judge: type) -> None:
    assert set(inspect.signature(judge).parameters) == {*NAMED[judge], *IRRELEVANT[judge]}
    assert not set(NAMED[judge]) & IRRELEVANT[judge]


def differing(make: Callable[..., Any], judge: type) -> list[str]:
    """The settings whose two values give one name."""
    return [
        setting
        for setting, (one, other) in NAMED[judge].items()
        if one is not other and make(**{setting: one}).name == make(**{setting: other}).name
    ]


def test_a_cascades_and_a_servers_names_tell_their_settings() -> None:
    def server(**options: Any) -> ServerModel:
        settings = {"base_urls": "http://host", "model": "m", "images": True}
        return ServerModel(**{**settings, **options})

    def cascade(**options: Any) -> Cascade:
        return Cascade(**{"judge": FakeJudge(), **options})

    assert differing(server, ServerModel) == differing(cascade, Cascade) == []
    assert "pixels" not in server(images=False).name
    first = FakeJudge(name="first")
    assert cascade(first=first, doubt=0.5).name != cascade(first=first, doubt=0.6).name


def test_a_transformers_models_name_tells_its_settings(tmp_path: Path) -> None:
    tokenizer = seeing_tokenizer()
    for folder, layers in (("one", 1), ("other", 2)):
        seeing_model(tokenizer, num_hidden_layers=layers).save_pretrained(tmp_path / folder)
    tiny_model(byte_tokenizer()).save_pretrained(tmp_path / "blind")

    def make(model: str = "one", **options: Any) -> TransformersModel:
        return TransformersModel(str(tmp_path / model), device="cpu", **options)

    assert differing(make, TransformersModel) == []
    assert "pixels" not in make("blind").name, "of a model that does not see they are irrelevant"
