"""A recipe's settings, from its flags and configuration, checked before anything is loaded."""

from __future__ import annotations

import os
from argparse import Action
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from trl import TrlParser

from posh_reward.errors import ConfigError
from posh_reward.settings import brief, guess, misfit, read_settings
from posh_reward.training.combinations import refusals
from posh_reward.training.processes import Processes

LIKE = "like"  # the key of a configuration that names another one, of which it changes some lines
CHECK = "--check"
ENV = "env"  # the key under which TRL takes environment variables


def parse_for(kinds: Sequence[type], argv: Sequence[str], there: Processes) -> tuple[Any, ...]:
    """Parse the settings of a run in these processes, in a single process on a CPU.

    Raises:
        ConfigError: as for ``parse``, or the trainer would refuse a combination.
    """
    script, training, *others = kinds
    # The trainer's settings divide batches by their world size, which only a real run has.
    crowd = make_dataclass(
        training.__name__, (), bases=(training,), namespace={"world_size": there.processes}
    )
    settings = parse((script, crowd, *others), [*argv, "--use_cpu"])
    refuse(settings, there)
    return settings


def parse(kinds: Sequence[type], argv: Sequence[str]) -> tuple[Any, ...]:
    """Parse flags and the configuration that ``--config`` names: one object of each dataclass.

    Raises:
        ConfigError: a name is unknown, or a value does not fit.
    """
    flags = list(argv)
    parser = SettingsParser(kinds)
    parser.add_argument(CHECK, action="store_true", help="say what would run, and whether it fits")
    if "--config" in flags:
        place = flags.index("--config")
        if place + 1 == len(flags):
            raise ConfigError("--config has no value: name a file after it")
        configure(parser, kinds, read_config(Path(flags[place + 1])), flags[place + 1])
        del flags[place : place + 2]
    try:
        *objects, unknown = parser.parse_args_into_dataclasses(flags, return_remaining_strings=True)
    except (ValueError, TypeError) as error:  # the dataclasses check themselves
        raise ConfigError(str(error)) from None
    if unknown:
        options = [option for action in parser.actions for option in action.option_strings]
        raise ConfigError(f"there is no flag {unknown[0]}{guess(unknown[0], options)}")
    return tuple(objects[: len(kinds)])  # behind them is a namespace with --check alone


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration, and the lines that it inherits from the one named by ``like``.

    Raises:
        ConfigError: a file cannot be read, or inherits from itself.
    """
    settings: dict[str, Any] = {}
    for _, lines in config_chain(path):
        settings = lines | settings
    return settings


def config_chain(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a configuration and those that it inherits from, nearest first, each by its own lines.

    Raises:
        ConfigError: a file cannot be read, or inherits from itself.
    """
    heirs: set[Path] = set()
    while True:
        if path.resolve() in heirs:
            raise ConfigError(f"{path} inherits from itself (`like`): name another configuration")
        heirs.add(path.resolve())
        lines = read_settings(path)
        base = lines.pop(LIKE, None)
        yield path, lines
        if base is None:
            return
        path = path.parent / str(base)


def configure(
    parser: SettingsParser, kinds: Sequence[type], settings: Mapping[str, Any], name: str
) -> None:
    """Make settings the parser's defaults, and set the variables under ``env``.

    Raises:
        ConfigError: a name is unknown, or a value does not fit.
    """
    hints = {key: hint for kind in kinds for key, hint in get_type_hints(kind).items()}
    names = [action.dest for action in parser.actions]
    for key, value in settings.items():
        if key != ENV and key not in names:
            raise ConfigError(f"{name}: there is no setting {key!r}{guess(key, names)}")
        # argparse reads text, such as 1e-6, by itself
        wrong = None if isinstance(value, str) else misfit(value, hints.get(key, Any))
        if wrong is not None:
            raise ConfigError(f"{name}: {key} is {brief(value)}: {wrong}")
    variables = settings.get(ENV, {})
    if not isinstance(variables, Mapping):
        raise ConfigError(f"{name}: env is {brief(variables)}: give a mapping")
    os.environ.update({key: str(value) for key, value in variables.items()})
    parser.set_defaults_with_config(**{k: v for k, v in settings.items() if k != ENV})


def refuse(settings: Sequence[Any], there: Processes) -> None:
    """Raise ConfigError with every combination that the trainer would refuse later."""
    script, training, _ = settings
    reasons = refusals(script, training, there)
    if reasons:
        raise ConfigError("; ".join(reasons))


class SettingsParser(TrlParser):  # type: ignore[misc]
    """TRL's parser, which prints its three hundred flags in front of every mistake."""

    @property
    def actions(self) -> list[Action]:
        """Every flag."""
        actions: list[Action] = self._actions
        return actions

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for a value that does not fit; argparse calls this."""
        raise ConfigError(message)
