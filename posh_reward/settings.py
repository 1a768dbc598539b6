"""Settings files: a mapping in YAML or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError, MissingDependencyError

ENDINGS = (".yaml", ".yml", ".json")


def read_settings(path: Path) -> dict[str, Any]:
    """The mapping in a file; nothing in it is checked yet.

    Raises:
        ConfigError: it cannot be read, or holds no mapping.
        MissingDependencyError: it is YAML, and PyYAML is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration cannot be read: {error}") from None
    settings = _parsed(text, path)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(f"{path.name}: no mapping of settings: write lines of `setting: value`")
    return settings


def _parsed(text: str, path: Path) -> object:
    if path.suffix.lower() == ".json":
        try:
            parsed: object = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{path.name}: no JSON ({error})") from None
        return parsed
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError(
            f"{path.name}: YAML needs PyYAML: pip install pyyaml, or write it as .json"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path.name}: no YAML ({error})") from None
