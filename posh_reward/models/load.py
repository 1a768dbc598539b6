"""Names of language models -> models. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.models.base import Model
from posh_reward.settings import make, named_settings

MODELS = {
    "transformers": "posh_reward.models.packed:TransformersModel",
    "vllm": "posh_reward.models.vllm:VllmModel",
    "server": "posh_reward.models.server:ServerModel",
    "fake-model": "posh_reward.models.fake:FakeModel",
}
"""Name -> ``module:class``. A settings file gives the arguments of that class."""


def load_model(which: str | Mapping[str, Any]) -> Model:
    """The model of that name, or as a settings file or mapping describes it.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}``.

    Raises:
        InputError: there is no such name; the message lists those there are.
        ConfigError: the settings have a value that cannot be used.
    """
    model: Model = make(MODELS, named_settings(which, tuple(MODELS), "model"), "model")
    return model
