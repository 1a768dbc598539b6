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
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from posh_reward.errors import ConfigError, InputError, cut_middle, on_one_line

TRUST_VARIABLE = "POSH_TRUST_SETTINGS"
"""Environment variable that lets settings files do everything, if it is not empty."""
UNCHECKED_VARIABLE = "POSH_UNCHECKED"
"""Environment variable that admits a served model which cannot judge, if it is not empty."""
KEY_VARIABLE = re.compile(r"[A-Z0-9_]*_API_KEY")
DEFAULT_KEY_VARIABLE = "POSH_JUDGE_API_KEY"
"""Variable with the key of a served model whose settings name no other."""
ADDRESS_SETTINGS = ("judge", "witness", "reader", "first", "model")
"""Settings whose value may be a server's address."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

UNSAFE_SETTINGS = {
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
    os.environ[TRUST_VARIABLE] = "1"


def validate_safety(settings: object, file: str) -> None:
    """Check all mappings of a settings file, nested ones included."""
    if os.environ.get(TRUST_VARIABLE):
        return
    for mapping in _find_mappings(settings):
        for name, value in mapping.items():
            reason = _explain_unsafe(name, value, mapping)
            if reason is not None:
                raise ConfigError(
                    f"{file}: {name} is {on_one_line(repr(value))}: {reason}, which a settings "
                    "file may do only with --trust-settings, if you trust whoever wrote it "
                    "(docs/cli.md)"
                )


def _find_mappings(settings: object) -> Iterator[Mapping[Any, Any]]:
    unvisited = [settings]
    while unvisited:
        each = unvisited.pop()
        if isinstance(each, str) and each.lstrip()[:1] in ("{", "["):
            # Recipes' arguments may be mappings in JSON, which transformers parses.
            with suppress(ValueError, RecursionError):
                each = json.loads(each)
        if isinstance(each, Mapping):
            yield each
            unvisited += each.values()
        elif isinstance(each, list):
            unvisited += each


def _explain_unsafe(name: object, value: object, others: Mapping[Any, Any]) -> str | None:
    """Tell what harm a setting could do; None if it is safe."""
    if name == "weights_only":
        return None if value else "it runs code that a file of weights may contain"
    if value in (None, False, ""):
        return None
    if _names_function(name, value, others):
        return "it is code to run"
    if name == "attn_implementation" and "/" in str(value):
        return "it is a kernel to download and run"
    if name == "api_key_env" and KEY_VARIABLE.fullmatch(str(value)) is None:
        return "it sends a variable whose name does not end in _API_KEY"
    if name == "base_urls":
        return _find_key_sent(value, others.get("api_key_env", DEFAULT_KEY_VARIABLE))
    is_address = isinstance(value, str) and value.startswith(("http://", "https://"))
    if name in ADDRESS_SETTINGS and is_address:
        return _find_key_sent(value, DEFAULT_KEY_VARIABLE)
    return UNSAFE_SETTINGS.get(str(name))


def _names_function(name: object, value: object, others: Mapping[Any, Any]) -> bool:
    """Return True for ``module:function`` where that would be imported and called."""
    if name not in ("encoder", "reader") and not (name == "model" and others.get("name") == "nli"):
        return False
    is_address = str(value).startswith(("http://", "https://"))
    return isinstance(value, str) and ":" in value and not is_address


def _find_key_sent(urls: object, variable: object) -> str | None:
    """Tell which key would be sent to an address that the file, not the user, chose."""
    if not isinstance(variable, str) or not os.environ.get(variable, "").strip():
        return None
    if not isinstance(urls, list):
        urls = [urls]
    for url in urls:
        try:
            host = urlsplit(str(url).strip()).hostname
        except ValueError:
            host = None
        if host not in LOCAL_HOSTS:
            return f"it sends the key in {variable} to {host}"
    return None


SETTINGS_SUFFIXES = (".yaml", ".yml", ".json")
ClassPaths = Mapping[str, str]  # name in settings -> ``module:class``, imported on demand

TYPE_REMEDIES = {
    "int_type": "use a whole number",
    "float_type": "use a number (YAML reads 5e-1 as text: write 0.5)",
    "bool_type": "use true or false",
    "string_type": "use a text",
    "dict_type": "use a mapping",
    "is_instance_of": "use a list",
}
"""pydantic's error type -> the remedy in a settings file."""

MAX_VALUE_CHARACTERS = 80  # of a value that a message repeats
MAX_NAMES_CHARACTERS = 200  # of the names that a message lists
MAX_FILES_NAMED = 3  # of a folder's settings files


def read_settings(path: Path, what: str = "the configuration") -> dict[str, Any]:
    """Read the mapping in a file, without checking its values other than for harm."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = suggest_file(path)
        if not hint and path.parts[0] == "configs":
            hint = ": `posh-reward init DIR` copies those that are shipped"
        raise ConfigError(f"{what} cannot be read: there is no file {str(path)!r}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise ConfigError(f"{what} cannot be read: {error}") from None
    settings = _parse_file(text, path)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path.name} is not a mapping: write lines of `setting: value`")
    validate_safety(settings, path.name)
    return settings


def _parse_file(text: str, path: Path) -> object:
    notation = "JSON" if path.suffix.lower() == ".json" else "YAML"
    try:
        if notation == "JSON":
            return json.loads(text, object_pairs_hook=_reject_duplicates)
        return _parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None
    except RecursionError:
        reason = "its values are nested too deeply"
    except Exception as error:  # broken scalars make PyYAML raise errors of all kinds
        reason = str(error)
    raise ConfigError(f"{path.name} is not valid {notation}: {reason}")


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
            _reject_duplicates([(str(name.value), None) for name, _ in node.value])
            nodes += chain.from_iterable(node.value)
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return yaml.safe_load(text)


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse names set twice; parsers would silently use the last one."""
    mapping: dict[str, Any] = {}
    for name, value in pairs:
        if name in mapping:
            raise ConfigError(f"{shorten(name)} is set twice: remove one of the two")
        mapping[name] = value
    return mapping


def resolve_settings(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return settings, ``name`` included, from a name, a settings file or a mapping."""
    where = ""
    if isinstance(which, str) and which.lower().endswith(SETTINGS_SUFFIXES):
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
        raise InputError(f"the {what} {shorten(name)} is a {hint}")
    if name not in names:
        real = [each for each in names if not each.startswith(FAKE_PREFIX)]
        raise InputError(
            f"there is no {what} {shorten(name)}{suggest_name(name, names)}: choose one of "
            f"{', '.join(real)}, a settings file (.yaml or .json) that names one, or a server's "
            "address (http://...)"
        )
    return options


FAKE_PREFIX = "fake"
"""Of the names of judges and models for tests, whose answers mean nothing."""


def _hint_at_path(name: str) -> str | None:
    """Return what to do with the path of a model's folder or file; None for other names."""
    try:
        path = Path(name)
        if path.is_dir():
            own = sorted(path.glob("*.yaml"))[:MAX_FILES_NAMED]
            if own:
                return f"folder: name its settings, {' or '.join(map(str, own))}"
            return (
                "folder: write a settings file with `name: transformers` (or vllm) and "
                "`model: FOLDER`"
            )
        if path.suffix.lower() == ".gguf":
            return "GGUF file: serve it with llama-server, and give its address (http://...)"
    except (OSError, ValueError):  # a name too long for a path, or with a NUL
        pass
    return None


def build_from_settings(table: ClassPaths, options: Mapping[str, Any], what: str) -> Any:
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
                f"{what}: there is no setting "
                f"{shorten(name)}{suggest_name(name, parameters)}: choose among "
                f"{', '.join(parameters) or 'none'}"
            )
    required = [name for name, each in parameters.items() if each.default is each.empty]
    missing = [name for name in required if name not in settings]
    if missing:
        raise ConfigError(
            f"{what} needs {', '.join(missing)}: use a settings file, such as those in "
            "configs/judge (`posh-reward init DIR` copies them)"
        )
    function = target.__init__ if inspect.isclass(target) else target
    hints = get_type_hints(function)
    read = {name: read_switch(value, hints.get(name, Any)) for name, value in settings.items()}
    for name, value in read.items():
        remedy = find_type_error(value, hints.get(name, Any))
        if remedy is not None:
            raise ConfigError(f"{what}: {name} is {shorten(value)}: {remedy}")
    return read


def read_switch(value: object, hint: Any) -> Any:
    """Return ``on`` or ``off`` for a setting with these words, which YAML reads as booleans."""
    word = "on" if value else "off"
    has_switch = isinstance(value, bool) and find_type_error("any text", hint) is not None
    return word if has_switch and find_type_error(word, hint) is None else value


def find_type_error(value: object, hint: Any) -> str | None:
    """Return the remedy for a value that does not fit an annotation; None if it fits."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # one of our classes, which checks its own arguments
        return None
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        remedies = dict.fromkeys(
            TYPE_REMEDIES.get(each["type"], each["msg"]) for each in error.errors()
        )
        return " or ".join(remedies)
    return None


def shorten(value: object) -> str:
    """Return a value for a message, cut to at most a line."""
    text = repr(value)
    if len(text) > MAX_VALUE_CHARACTERS:
        text = f"{text[:MAX_VALUE_CHARACTERS]}..."
    return text


def shorten_list(names: Iterable[object]) -> str:
    """Return names, such as a table's columns, for a message; a long list loses its middle."""
    return cut_middle(", ".join(map(shorten, names)) or "none", MAX_NAMES_CHARACTERS)


def suggest_name(name: object, names: Iterable[str], similarity: float = 0.6) -> str:
    """Return a hint at the most similar of the known names; empty if none is similar."""
    known = {each.lower(): each for each in names}
    close = get_close_matches(str(name).lower(), known, n=1, cutoff=similarity)
    if not close:
        return ""
    return f" (did you mean {known[close[0]]!r}?)"


def suggest_file(path: Path, similarity: float = 0.6) -> str:
    """Return a hint at the file in the same folder whose name is most similar."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except (OSError, ValueError):
        return ""
    return suggest_name(path.name, names, similarity)
