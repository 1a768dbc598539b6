"""The flags and the configuration of a recipe, checked before anything is loaded."""

from __future__ import annotations

import os
import sys
from argparse import Action
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from trl import TrlParser

from posh_reward.errors import ConfigError
from posh_reward.settings import brief, guess, misfit, read_settings
from posh_reward.training.combinations import refusals
from posh_reward.training.processes import Processes, own_cache

LIKE = "like"
"""The key of a configuration that names another one, of which it changes some lines."""
CHECK = "--check"
ENV = "env"
"""The key under which TRL takes environment variables."""


def parsed(kinds: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """One object of each dataclass, from the flags and the file that ``--config`` names.

    For the start of a run: it also gives this rank's engines their own cache.

    Args:
        kinds: the dataclasses of a recipe: its own arguments, the trainer's, the model's.
        argv: flags; by default those of the command line.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or the trainer would refuse a
            combination later, after the weights have been loaded.
        SystemExit: with ``--check``, after saying what would run.
    """
    flags = list(sys.argv[1:] if argv is None else argv)
    if CHECK in flags:
        from posh_reward.training.checking import check

        flags.remove(CHECK)
        raise SystemExit(check(kinds, flags))
    own_cache(os.environ)
    found = parsed_alone(kinds, flags)
    refuse(found, Processes.of_this_run(found[1]))
    return found


def parsed_for(kinds: Sequence[type], argv: Sequence[str], there: Processes) -> tuple[Any, ...]:
    """What ``parsed`` gives in a run of these processes, found out in a single one on a CPU.

    Raises:
        ConfigError: as for ``parsed``.
    """
    script, training, *others = kinds
    crowd = make_dataclass(
        training.__name__, (), bases=(training,), namespace={"world_size": there.processes}
    )
    found = parsed_alone((script, crowd, *others), [*argv, "--use_cpu"])
    refuse(found, there)
    return found


def parsed_alone(kinds: Sequence[type], argv: Sequence[str]) -> tuple[Any, ...]:
    """What the flags and the configuration say, whatever processes there are."""
    flags = list(argv)
    parser = Parser(kinds)
    parser.add_argument(CHECK, action="store_true", help="say what would run, and whether it fits")
    if "--config" in flags:
        place = flags.index("--config")
        if place + 1 == len(flags):
            raise ConfigError("--config has no value: name a file after it")
        configure(parser, kinds, read_config(Path(flags[place + 1])), flags[place + 1])
        del flags[place : place + 2]
    try:
        *found, unknown = parser.parse_args_into_dataclasses(flags, return_remaining_strings=True)
    except (ValueError, TypeError) as error:  # the dataclasses check themselves
        raise ConfigError(str(error)) from None
    if unknown:
        known = [option for action in parser.actions for option in action.option_strings]
        raise ConfigError(f"there is no flag {unknown[0]}{guess(unknown[0], known)}")
    return tuple(found[: len(kinds)])  # behind them is what only says --check


def read_config(path: Path) -> dict[str, Any]:
    """A configuration, with what it leaves to the one that its ``like`` names, next to it.

    Raises:
        ConfigError: one of the files cannot be read, or a file is like itself.
    """
    settings: dict[str, Any] = {}
    seen: set[Path] = set()
    while True:
        if path.resolve() in seen:
            raise ConfigError(f"{path} is like itself: name another configuration")
        seen.add(path.resolve())
        settings = read_settings(path) | settings
        base = settings.pop(LIKE, None)
        if base is None:
            return settings
        path = path.parent / str(base)


def configure(
    parser: Parser, kinds: Sequence[type], settings: Mapping[str, Any], name: str
) -> None:
    """Makes settings the parser's defaults, and sets the variables under ``env``.

    Raises:
        ConfigError: a name is unknown, or a value does not fit.
    """
    hints = {key: hint for kind in kinds for key, hint in get_type_hints(kind).items()}
    known = [action.dest for action in parser.actions]
    for key, value in settings.items():
        if key != ENV and key not in known:
            raise ConfigError(f"{name}: there is no setting {key!r}{guess(key, known)}")
        # argparse reads text, such as 1e-6, by itself
        wrong = None if isinstance(value, str) else misfit(value, hints.get(key, Any))
        if wrong is not None:
            raise ConfigError(f"{name}: {key} is {brief(value)}: {wrong}")
    variables = settings.get(ENV, {})
    if not isinstance(variables, Mapping):
        raise ConfigError(f"{name}: env is {brief(variables)}: give a mapping")
    os.environ.update({key: str(value) for key, value in variables.items()})
    parser.set_defaults_with_config(**{k: v for k, v in settings.items() if k != ENV})


def refuse(found: Sequence[Any], there: Processes) -> None:
    """Raises ConfigError with every combination that the trainer would refuse later."""
    script, training, _ = found
    reasons = refusals(script, training, there)
    if reasons:
        raise ConfigError("; ".join(reasons))


class Parser(TrlParser):  # type: ignore[misc]
    """TRL's, which prints its three hundred flags in front of every mistake."""

    @property
    def actions(self) -> list[Action]:
        """Every flag."""
        found: list[Action] = self._actions
        return found

    def error(self, message: str) -> NoReturn:
        """Called by argparse for a value that does not fit.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(message)
