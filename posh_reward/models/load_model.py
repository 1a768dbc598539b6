"""Names of language models -> models. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.models.model import Model
from posh_reward.settings import make, read_settings, settings_of
from posh_reward.shipped import shipped

MODELS = {
    "transformers": "posh_reward.models.packed:TransformersModel",
    "vllm": "posh_reward.models.vllm:VllmModel",
    "server": "posh_reward.models.server:ServerModel",
    "fake-model": "posh_reward.models.fake_model:FakeModel",
}
"""Name -> ``module:class``. A settings file gives the arguments of that class."""

SHIPPED = ("transformers", "vllm")
"""Names that on their own mean the shipped ``configs/judge/NAME.yaml``. A server's address cannot
be shipped."""


OWN_FOLDER = "."
"""The ``model`` of settings that stand in the model's own folder, as a distilled judge's do."""


def model_settings(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """``settings_of``, with the shipped ones for a language model's name on its own.

    ``model: .`` in a settings file is the folder of that file, which may be moved as a whole; other
    paths are relative to the working folder.
    """
    if isinstance(which, str) and which in SHIPPED:
        return read_settings(shipped(f"configs/judge/{which}.yaml"))
    settings = settings_of(which, names, what)
    if settings.get("model") == OWN_FOLDER and isinstance(which, str):
        settings["model"] = str(Path(which).resolve().parent)
    return settings


def model_of(which: str | Mapping[str, Any] | Model, *, sees: bool = False) -> Model:
    """The model that was passed in, or the one of a name or of settings.

    Args:
        which: a name, a settings file or a mapping, as for ``load_model``, or a ``Model``.
        sees: whether it has to take images.

    Raises:
        InputError: it is not a model, or does not take images and has to.
        ConfigError: the settings have a value that cannot be used.
    """
    model: Model = load_model(which) if isinstance(which, str | Mapping) else which
    if not (hasattr(model, "choose") and hasattr(model, "write")):
        raise InputError(f"model is {which!r}: give a name, a settings file or a Model")
    if sees and not model.sees:
        raise InputError(f"{model.name} does not take images: name a model that sees")
    return model


def load_model(which: str | Mapping[str, Any]) -> Model:
    """The model of that name, or as a settings file or mapping describes it.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}``.

    Raises:
        InputError: there is no such name; the message lists those there are.
        ConfigError: the settings have a value that cannot be used.
    """
    model: Model = make(MODELS, model_settings(which, tuple(MODELS), "model"), "model")
    return model
