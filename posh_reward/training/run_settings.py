"""Parse a recipe's flags and configuration, and check them before anything is loaded."""

from __future__ import annotations

import os
from argparse import Action
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from trl import TrlParser

from posh_reward.errors import ConfigError
from posh_reward.settings import brief, guess, misfit, read_settings, trust_settings
from posh_reward.training.combinations import refusals
from posh_reward.training.processes import Processes

LIKE = "like"  # key of a configuration: another one, from which it inherits
CHECK = "--check"
ALL_HELP = "--help_all"
TRUST_FLAGS = ("--trust_settings", "--trust-settings")  # as in TRL, and as in our commands
ENV = "env"  # key of a configuration: environment variables, as in TRL


def flag(default: Any, help: str) -> Any:
    """Return a field of a recipe's settings, with its default and its line in ``--help``."""
    return field(default=default, metadata={"help": help})


def parse_for(kinds: Sequence[type], argv: Sequence[str], layout: Processes) -> tuple[Any, ...]:
    """Parse and check a run's settings as if in these processes, from one process on a CPU."""
    script, training, *others = kinds
    # The trainer's settings divide batches by ``world_size``, which only a real run knows.
    with_world_size = make_dataclass(
        training.__name__, (), bases=(training,), namespace={"world_size": layout.processes}
    )
    settings = parse((script, with_world_size, *others), [*argv, "--use_cpu"])
    refuse(settings, layout)
    return settings


def parse(kinds: Sequence[type], argv: Sequence[str]) -> tuple[Any, ...]:
    """Parse flags and the configuration of ``--config`` into one object of each dataclass.

    Raises:
        ConfigError: a name is unknown, or a value does not fit.
    """
    flags = list(argv)
    parser = SettingsParser(kinds)
    parser.add_argument(CHECK, action="store_true", help="show what would run, and whether it fits")
    parser.add_argument(*TRUST_FLAGS, action="store_true", help="let the configuration and the "
                        "files that it names run programs and send keys (docs/cli.md)")  # fmt: skip
    if not {"-h", "--help"}.isdisjoint(flags):
        print(_own_help(kinds[0]))
        raise SystemExit(0)
    if ALL_HELP in flags:
        parser.print_help()
        raise SystemExit(0)
    if not {*TRUST_FLAGS}.isdisjoint(flags):
        trust_settings()
    if "--config" in flags:
        place = flags.index("--config")
        if place + 1 == len(flags):
            raise ConfigError("--config has no value: name a file after it")
        _set_defaults(parser, kinds, read_config(Path(flags[place + 1])), flags[place + 1])
        del flags[place : place + 2]
    try:
        *objects, unknown = parser.parse_args_into_dataclasses(flags, return_remaining_strings=True)
    except (ValueError, TypeError) as error:  # from the dataclasses' own checks
        raise ConfigError(str(error)) from None
    if unknown:
        options = [option for action in parser.actions for option in action.option_strings]
        raise ConfigError(f"unknown flag {unknown[0]}{guess(unknown[0], options)}")
    return tuple(objects[: len(kinds)])  # without the last, a namespace with --check alone


def _own_help(kind: type) -> str:
    """Flags of the recipe itself; TRL's and transformers' take more than a thousand lines."""
    parser = SettingsParser((kind,))
    parser.usage = f"{parser.prog} --config FILE [{CHECK}] [flags]"
    others = f"Flags of TRL and transformers, such as --learning_rate: {parser.prog} {ALL_HELP}"
    return f"{parser.format_help()}\n{others}"


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration, with the settings that it inherits through ``like``."""
    settings: dict[str, Any] = {}
    for _, lines in config_chain(path):
        settings = lines | settings
    return settings


def config_chain(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a configuration and its ancestors, nearest first, each with its own settings.

    Raises:
        ConfigError: a file cannot be read, or inherits from itself.
    """
    seen: set[Path] = set()
    while True:
        if path.resolve() in seen:
            raise ConfigError(f"{path} inherits from itself (`like`): name another configuration")
        seen.add(path.resolve())
        lines = read_settings(path)
        base = lines.pop(LIKE, None)
        yield path, lines
        if base is None:
            return
        path = path.parent / str(base)


def _set_defaults(
    parser: SettingsParser, kinds: Sequence[type], settings: Mapping[str, Any], name: str
) -> None:
    """Make settings the parser's defaults, and set the environment variables under ``env``."""
    hints = {key: hint for kind in kinds for key, hint in get_type_hints(kind).items()}
    names = [action.dest for action in parser.actions]
    for key, value in settings.items():
        if key != ENV and key not in names:
            raise ConfigError(f"{name}: unknown setting {key!r}{guess(key, names)}")
        # argparse converts strings, such as 1e-6, itself
        wrong = None if isinstance(value, str) else misfit(value, hints.get(key, Any))
        if wrong is not None:
            raise ConfigError(f"{name}: {key} is {brief(value)}: {wrong}")
    variables = settings.get(ENV, {})
    if not isinstance(variables, Mapping):
        raise ConfigError(f"{name}: env is {brief(variables)}: use a mapping")
    os.environ.update({key: str(value) for key, value in variables.items()})
    parser.set_defaults_with_config(**{k: v for k, v in settings.items() if k != ENV})


def refuse(settings: Sequence[Any], layout: Processes) -> None:
    """Raise ConfigError with all combinations that the trainer would refuse later."""
    script, training, _ = settings
    reasons = refusals(script, training, layout)
    if reasons:
        raise ConfigError("; ".join(reasons))


class SettingsParser(TrlParser):  # type: ignore[misc]
    """TRL's parser, without the usage of three hundred flags before each error."""

    @property
    def actions(self) -> list[Action]:
        """All flags."""
        actions: list[Action] = self._actions
        return actions

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError; argparse calls this for an invalid value."""
        raise ConfigError(message)
