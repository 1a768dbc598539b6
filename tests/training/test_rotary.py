"""Rounded rotary frequencies; test_zero3.py has DeepSpeed round them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText

from posh_reward.errors import ConfigError
from posh_reward.training.rotary import restore_rotary


@pytest.fixture
def rounded(tiny: Path) -> Any:
    """A model whose buffers were cast too, as by ``zero.Init``."""
    return AutoModelForImageTextToText.from_pretrained(tiny).to(torch.bfloat16)


def test_rounded_frequencies_become_those_of_a_plain_model(rounded: Any, tiny: Path) -> None:
    plain = AutoModelForImageTextToText.from_pretrained(tiny, dtype=torch.bfloat16)
    ids = {"input_ids": (torch.arange(800) % 200 + 10)[None]}
    assert (rounded(**ids).logits - plain(**ids).logits).abs().max() > 0.1
    restore_rotary(rounded)
    assert torch.equal(rounded(**ids).logits, plain(**ids).logits)
    buffers = dict(rounded.named_buffers())
    frequencies = [name for name in buffers if name.endswith("inv_freq")]
    assert len(frequencies) == 4, "text and vision, in use and original"
    for name, exact in plain.named_buffers():
        assert buffers[name].dtype == exact.dtype, name
        assert torch.equal(buffers[name], exact), name
    assert set(rounded.state_dict()) == set(plain.state_dict()), "they are not saved"


def test_frequencies_that_cannot_be_computed_are_refused_if_rounded(rounded: Any) -> None:
    rotary = rounded.model.language_model.rotary_emb
    rotary.config.rope_parameters["rope_type"] = "unheard-of"
    with pytest.raises(ConfigError, match=r"rotary_emb\.inv_freq are in torch\.bfloat16.*zero_"):
        restore_rotary(rounded)
    rotary.float()
    restore_rotary(rounded)  # nothing says that they are wrong
