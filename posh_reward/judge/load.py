"""Names of judges -> judges. Each is imported when asked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

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
    if name in JUDGES:
        judge: Judge = made(**options)
        return judge
    return PromptJudge(made(**options), preset, store)


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


def _import(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
