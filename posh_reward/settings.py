"""Settings: a mapping in YAML or JSON, checked against the signature of what it configures.

Besides ``name``, a settings file gives the arguments of a class; their annotations say which
values fit. So each setting is described once, in the code that it sets.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from posh_reward.errors import ConfigError, InputError, shortened

ENDINGS = (".yaml", ".yml", ".json")

Table = Mapping[str, str]
"""Names in settings -> ``module:class``, imported on demand."""


REMEDIES = {
    "int_type": "give a whole number",
    "float_type": "give a number (YAML reads 5e-1 as text: write 0.5)",
    "bool_type": "give true or false",
    "string_type": "give a text",
    "dict_type": "give a mapping",
    "is_instance_of": "give a list",
}
"""pydantic's types of errors -> what to do about them in a settings file."""

LONGEST = 80
"""Characters of a value that a message repeats."""
LONGEST_LIST = 200
"""Characters of the names that a message lists."""


def read_settings(path: Path, what: str = "the configuration") -> dict[str, Any]:
    """The mapping in a file; its values are not checked yet.

    Args:
        path: of the file.
        what: what it describes, for messages: "the judge's settings".

    Raises:
        ConfigError: it cannot be read, or does not hold a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        remedy = ": `posh-reward init DIR` copies those that are shipped"
        hint = remedy if path.parts[0] == "configs" else ""
        raise ConfigError(f"{what} cannot be read: there is no file {str(path)!r}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a name with a NUL
        raise ConfigError(f"{what} cannot be read: {error}") from None
    settings = _parse(text, path)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path.name} is not a mapping: write lines of `setting: value`")
    return settings


def _parse(text: str, path: Path) -> object:
    is_json = path.suffix.lower() == ".json"
    try:
        return json.loads(text, object_pairs_hook=_once_each) if is_json else _yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None
    except RecursionError:
        why = "its values are nested too deeply"
    except Exception as error:  # PyYAML stumbles over broken scalars with errors of all kinds
        why = str(error)
    raise ConfigError(f"{path.name} is not valid {'JSON' if is_json else 'YAML'}: {why}")


def _yaml(text: str) -> object:
    """The value of a YAML document.

    Raises:
        ConfigError: it has aliases, of which a few lines can make gigabytes, or a name twice.
        yaml.YAMLError: it is not YAML.
    """
    import yaml

    nodes = [yaml.compose(text, yaml.SafeLoader)]
    met = set()
    for node in nodes:
        if node in met:
            raise ConfigError("aliases (*name) are not taken: write the value out")
        met.add(node)
        if isinstance(node, yaml.MappingNode):
            _once_each([(str(name.value), None) for name, _ in node.value])
            nodes += [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return yaml.safe_load(text)


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping of some pairs.

    Raises:
        ConfigError: a name comes twice, of which parsers would take the last one in silence.
    """
    mapping: dict[str, Any] = {}
    for name, value in pairs:
        if name in mapping:
            raise ConfigError(f"{brief(name)} is set twice: remove one of the two")
        mapping[name] = value
    return mapping


def settings_of(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """Settings with their ``name``, from a name, a settings file or a mapping.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}``.
        names: the names there are.
        what: what is named, for messages: "judge".

    Raises:
        InputError: the name is not one of them; the message lists them.
        ConfigError: a settings file cannot be read.
    """
    where = ""
    if isinstance(which, str) and which.lower().endswith(ENDINGS):
        where = f" in {which!r}"
        which = read_settings(Path(which), f"the {what}'s settings")
    options = dict(which) if isinstance(which, Mapping) else {"name": which}
    if "name" not in options:
        raise InputError(
            f"the {what}'s settings{where} have no name: add a line "
            f"`name: ...` with one of {', '.join(names)}"
        )
    name = options["name"]
    if name not in names:
        raise InputError(
            f"there is no {what} {brief(name)}{guess(name, names)}: choose one of "
            f"{', '.join(names)}, or a settings file (.yaml or .json) that names one"
        )
    return options


def make(table: Table, options: Mapping[str, Any], what: str) -> Any:
    """An object of the class that ``options["name"]`` names, with the other options.

    Raises:
        ConfigError: an option is unknown, missing, or has a value that does not fit.
    """
    settings = dict(options)
    name = settings.pop("name")
    module, _, attribute = table[name].partition(":")
    target = getattr(import_module(module), attribute)
    return target(**check_settings(target, settings, f"{what} {name}"))


def check_settings(
    target: Callable[..., Any], settings: Mapping[str, Any], what: str
) -> dict[str, Any]:
    """The settings, if ``target`` takes them as arguments. Text is never converted to numbers.

    Args:
        target: a class or a function with annotations.
        settings: by name.
        what: what is being set, for messages: "judge vllm".

    Raises:
        ConfigError: one is unknown, missing, or of the wrong type.
    """
    parameters = inspect.signature(target).parameters
    for name in settings:
        if name not in parameters:
            raise ConfigError(
                f"{what}: there is no setting {brief(name)}{guess(name, parameters)}: choose among "
                f"{', '.join(parameters) or 'none'}"
            )
    missing = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and name not in settings
    ]
    if missing:
        raise ConfigError(
            f"{what} needs {', '.join(missing)}: give a settings file, such as those in "
            "configs/judge (`posh-reward init DIR` copies them)"
        )
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target)
    for name, value in settings.items():
        wrong = misfit(value, hints.get(name, Any))
        if wrong is not None:
            raise ConfigError(f"{what}: {name} is {brief(value)}: {wrong}")
    return dict(settings)


def misfit(value: object, hint: Any) -> str | None:
    """The remedy for a value that does not fit an annotation; None if it fits."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # a class of ours: whoever takes it checks it
        return None
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        remedies = dict.fromkeys(REMEDIES.get(each["type"], each["msg"]) for each in error.errors())
        return " or ".join(remedies)
    return None


def brief(value: object) -> str:
    """A value in a message: not longer than a line."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def brief_list(names: Iterable[object]) -> str:
    """Names in a message, such as of a table's columns, without the middle of a long list."""
    return shortened(", ".join(map(brief, names)) or "none", LONGEST_LIST)


def guess(name: object, names: Sequence[str] | Mapping[str, Any]) -> str:
    """The nearest of some names, for the end of a message; empty if none is near."""
    close = get_close_matches(str(name), names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
