"""Settings in YAML or JSON, checked against the signature of the class that they configure.

A settings file gives a ``name`` and the arguments of the class with that name; the annotations say
which values fit. Each setting is thus described once, in the code that uses it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from posh_reward.errors import ConfigError, InputError, on_one_line, shortened

TRUST = "POSH_TRUST_SETTINGS"
"""Environment variable that lets settings files do everything, if it is not empty."""
UNCHECKED = "POSH_UNCHECKED"
"""Environment variable that admits a served model which cannot judge, if it is not empty."""
KEY_VARIABLE = re.compile(r"[A-Z0-9_]*_API_KEY")
DEFAULT_KEY = "POSH_JUDGE_API_KEY"
"""Variable with the key of a served model whose settings name no other."""
ROLES = ("judge", "witness", "first", "model")  # settings whose value may be a server's address
LOCAL = ("localhost", "127.0.0.1", "::1")

HARMS = {
    "python": "it is a program to run",
    "env": "it sets environment variables",
    "trust_remote_code": "it runs code that a model brings along",
    "use_kernels": "it downloads and runs kernels",
    "push_to_hub": "it uploads the model",
    "hub_token": "it is an account to upload with",
    "log_completions_hub_repo": "it uploads completions",
    "trackio_space_id": "it uploads the log",
    "trackio_bucket_id": "it uploads the log",
    "trackio_static_space_id": "it uploads the log",
}
"""Setting -> what it would do, whatever its value."""


def trust_settings() -> None:
    """Let settings files do everything, here and in child processes."""
    os.environ[TRUST] = "1"


def refuse_harm(settings: object, file: str) -> None:
    """Check all mappings of a settings file, nested ones included."""
    if os.environ.get(TRUST):
        return
    for mapping in _mappings(settings):
        for name, value in mapping.items():
            harm = _harm(name, value, mapping)
            if harm is not None:
                raise ConfigError(
                    f"{file}: {name} is {on_one_line(repr(value))}: {harm}, which a settings file "
                    "may do only with --trust-settings, if you trust whoever wrote it (docs/cli.md)"
                )


def _mappings(settings: object) -> Iterator[Mapping[Any, Any]]:
    rest = [settings]
    while rest:
        each = rest.pop()
        if isinstance(each, str) and each.lstrip()[:1] in ("{", "["):
            # Recipes' arguments may be mappings in JSON, which transformers parses.
            with suppress(ValueError, RecursionError):
                each = json.loads(each)
        if isinstance(each, Mapping):
            yield each
            rest += each.values()
        elif isinstance(each, list):
            rest += each


def _harm(name: object, value: object, others: Mapping[Any, Any]) -> str | None:
    if name == "weights_only":
        return None if value else "it runs code that a file of weights may contain"
    if value in (None, False, ""):
        return None
    if name == "encoder":
        return "it is code to run" if ":" in str(value) else None
    if name == "attn_implementation":
        return "it is a kernel to download and run" if "/" in str(value) else None
    if name == "api_key_env":
        fits = KEY_VARIABLE.fullmatch(str(value))
        return None if fits else "it sends a variable whose name does not end in _API_KEY"
    if name in ROLES:
        address = isinstance(value, str) and value.startswith(("http://", "https://"))
        return _key_sent(value, DEFAULT_KEY) if address else None
    if name == "base_urls":
        return _key_sent(value, others.get("api_key_env", DEFAULT_KEY))
    return HARMS.get(str(name))


def _key_sent(urls: object, variable: object) -> str | None:
    """Tell which key would be sent to an address that the file, not the user, chose."""
    if not isinstance(variable, str) or not os.environ.get(variable, "").strip():
        return None
    for url in urls if isinstance(urls, list) else [urls]:
        try:
            host = urlsplit(str(url).strip()).hostname
        except ValueError:
            host = None
        if host not in LOCAL:
            return f"it sends the key in {variable} to {host}"
    return None


ENDINGS = (".yaml", ".yml", ".json")
Table = Mapping[str, str]  # name in settings -> ``module:class``, imported on demand

REMEDIES = {
    "int_type": "use a whole number",
    "float_type": "use a number (YAML reads 5e-1 as text: write 0.5)",
    "bool_type": "use true or false",
    "string_type": "use a text",
    "dict_type": "use a mapping",
    "is_instance_of": "use a list",
}
"""pydantic's error type -> the remedy in a settings file."""

LONGEST = 80  # characters of a value that a message repeats
LONGEST_LIST = 200  # characters of the names that a message lists


def read_settings(path: Path, what: str = "the configuration") -> dict[str, Any]:
    """Read the mapping in a file, without checking its values other than for harm."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        remedy = ": `posh-reward init DIR` copies those that are shipped"
        hint = remedy if path.parts[0] == "configs" else ""
        raise ConfigError(f"{what} cannot be read: there is no file {str(path)!r}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise ConfigError(f"{what} cannot be read: {error}") from None
    settings = _parse(text, path)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path.name} is not a mapping: write lines of `setting: value`")
    refuse_harm(settings, path.name)
    return settings


def _parse(text: str, path: Path) -> object:
    is_json = path.suffix.lower() == ".json"
    try:
        return json.loads(text, object_pairs_hook=_unique) if is_json else _parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None
    except RecursionError:
        reason = "its values are nested too deeply"
    except Exception as error:  # broken scalars make PyYAML raise errors of all kinds
        reason = str(error)
    raise ConfigError(f"{path.name} is not valid {'JSON' if is_json else 'YAML'}: {reason}")


def _parse_yaml(text: str) -> object:
    import yaml

    # Check the syntax tree before building values: a few lines of aliases can expand to gigabytes.
    nodes = [yaml.compose(text, yaml.SafeLoader)]
    seen = set()
    for node in nodes:
        if node in seen:
            raise ConfigError("aliases (*name) are not supported: write the value out")
        seen.add(node)
        if isinstance(node, yaml.MappingNode):
            _unique([(str(name.value), None) for name, _ in node.value])
            nodes += [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return yaml.safe_load(text)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse names set twice; parsers would silently use the last one."""
    mapping: dict[str, Any] = {}
    for name, value in pairs:
        if name in mapping:
            raise ConfigError(f"{brief(name)} is set twice: remove one of the two")
        mapping[name] = value
    return mapping


def settings_of(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return settings, ``name`` included, from a name, a settings file or a mapping."""
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
    if isinstance(name, str) and (hint := _hint_at_path(name)):
        raise InputError(f"the {what} {brief(name)} is a {hint}")
    if name not in names:
        raise InputError(
            f"there is no {what} {brief(name)}{guess(name, names)}: choose one of "
            f"{', '.join(names)}, a settings file (.yaml or .json) that names one, or a server's "
            "address (http://...)"
        )
    return options


def _hint_at_path(name: str) -> str | None:
    """Return what to do with the path of a model's folder or file; None for other names."""
    try:
        path = Path(name)
        if path.is_dir():
            own = [str(each) for each in sorted(path.glob("*.yaml"))[:3]]
            choice = (
                f"name its settings, {' or '.join(own)}"
                if own
                else (
                    "write a settings file with `name: transformers` (or vllm) and `model: FOLDER`"
                )
            )
            return f"folder: {choice}"
        if path.suffix.lower() == ".gguf":
            return "GGUF file: serve it with llama-server, and give its address (http://...)"
    except (OSError, ValueError):  # a name too long for a path, or with a NUL
        pass
    return None


def make(table: Table, options: Mapping[str, Any], what: str) -> Any:
    """Make an object of the class that ``options["name"]`` names, from the other options."""
    settings = dict(options)
    name = settings.pop("name")
    module, _, attribute = table[name].partition(":")
    target = getattr(import_module(module), attribute)
    return target(**check_settings(target, settings, f"{what} {name}"))


def check_settings(
    target: Callable[..., Any], settings: Mapping[str, Any], what: str
) -> dict[str, Any]:
    """Return the settings if ``target`` accepts them. Text is never converted to numbers."""
    parameters = inspect.signature(target).parameters
    for name in settings:
        if name not in parameters:
            raise ConfigError(
                f"{what}: there is no setting {brief(name)}{guess(name, parameters)}: choose among "
                f"{', '.join(parameters) or 'none'}"
            )
    required = [name for name, each in parameters.items() if each.default is each.empty]
    missing = [name for name in required if name not in settings]
    if missing:
        raise ConfigError(
            f"{what} needs {', '.join(missing)}: use a settings file, such as those in "
            "configs/judge (`posh-reward init DIR` copies them)"
        )
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target)
    for name, value in settings.items():
        remedy = misfit(value, hints.get(name, Any))
        if remedy is not None:
            raise ConfigError(f"{what}: {name} is {brief(value)}: {remedy}")
    return dict(settings)


def misfit(value: object, hint: Any) -> str | None:
    """Return the remedy for a value that does not fit an annotation; None if it fits."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # one of our classes, which checks its own arguments
        return None
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        remedies = dict.fromkeys(REMEDIES.get(each["type"], each["msg"]) for each in error.errors())
        return " or ".join(remedies)
    return None


def brief(value: object) -> str:
    """Return a value for a message, cut to at most a line."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def brief_list(names: Iterable[object]) -> str:
    """Return names, such as a table's columns, for a message; a long list loses its middle."""
    return shortened(", ".join(map(brief, names)) or "none", LONGEST_LIST)


def guess(name: object, names: Sequence[str] | Mapping[str, Any]) -> str:
    """Return a hint at the most similar of the known names; empty if none is similar."""
    close = get_close_matches(str(name), names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
