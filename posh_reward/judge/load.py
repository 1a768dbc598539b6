"""Names of judges -> judges. Each is imported when asked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from posh_reward.errors import ConfigError, InputError
from posh_reward.judge.base import Judge
from posh_reward.judge.llm.judge import PromptJudge
from posh_reward.settings import ENDINGS, read_settings
from posh_reward.store import Store

JUDGES = {
    "embedded": "posh_reward.judge.embedded:EmbeddedJudge",
    "fake": "posh_reward.judge.fake:FakeJudge",
}
"""Judges that read scene graphs: name -> ``module:class``."""

MODELS = {
    "transformers": "posh_reward.judge.llm.packed:TransformersModel",
    "vllm": "posh_reward.judge.llm.colocated:ColocatedModel",
    "server": "posh_reward.judge.llm.server:ServerModel",
    "fake-model": "posh_reward.judge.fake:FakeModel",
}
"""Language models that judge by prompts: name -> ``module:class``. What a settings file says
besides ``name`` are the arguments of the class."""

KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number (YAML takes 5e-1 for a text: write 0.5)",
    str: "a text",
    NoneType: "null",
}
"""What the arguments of those classes take, and what a settings file calls it."""

KNOWN = (*JUDGES, *MODELS)


def load_judge(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Judge:
    """The judge of that name, or the one that a settings file or mapping describes.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}`` with
            the arguments of that judge's class.
        preset: wording of the questions to language models.
        store: where language models' answers are kept.

    Raises:
        InputError: there is none of that name; the message lists those there are.
        ConfigError: the settings have a value that cannot be used.
    """
    options = judge_options(which)
    name = options.pop("name")
    made: Any = _import(JUDGES[name] if name in JUDGES else MODELS[name])
    _check_options(name, made, options)
    try:
        judge = made(**options)
    except TypeError as error:  # "8" for 8, say
        raise ConfigError(f"judge {name}: a setting is of the wrong type: {error}") from None
    return judge if name in JUDGES else PromptJudge(judge, preset, store)


def judge_options(which: str | Mapping[str, Any]) -> dict[str, Any]:
    """A judge as a mapping with its ``name``.

    Raises:
        InputError: there is none of that name.
        ConfigError: a settings file cannot be read.
    """
    if isinstance(which, str) and which.lower().endswith(ENDINGS):
        which = read_settings(Path(which))
    options = {"name": which} if isinstance(which, str) else dict(which)
    name = options.get("name")
    if name not in KNOWN:
        raise InputError(
            f"no judge {name!r}: choose one of {', '.join(KNOWN)}, a settings file that "
            "names one, or pass a Judge"
        )
    return options


def _check_options(name: str, made: Any, options: Mapping[str, Any]) -> None:
    wanted = inspect.signature(made).parameters
    unknown = [option for option in options if option not in wanted]
    if unknown:
        raise ConfigError(
            f"judge {name}: there is no setting {unknown[0]!r}: choose among "
            f"{', '.join(wanted) or 'none'}"
        )
    missing = [p for p, how in wanted.items() if how.default is how.empty and p not in options]
    if missing:
        raise ConfigError(
            f"judge {name} needs {', '.join(missing)}: give a settings file, such as those in "
            "configs/judge"
        )
    hints = get_type_hints(made.__init__)
    for option, value in options.items():
        if not _fits(value, hints[option]):
            raise ConfigError(f"judge {name}: {option} is {value!r}: give {_called(hints[option])}")


def _fits(value: object, hint: Any) -> bool:
    """Whether a settings file's value is of the kind that an argument's annotation names."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if hint is float:
        return type(value) in (int, float)
    if hint in KINDS:
        return type(value) is hint
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(each, inner[0]) for each in value)
    return isinstance(value, Mapping) if origin is Mapping else True


def _called(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_called(each) for each in inner)
    if origin is Sequence:
        return f"a list, each {_called(inner[0])}"
    return KINDS.get(hint, "a mapping")


def _import(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
