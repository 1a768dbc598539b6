"""Empty modules in place of engines and loggers that a test's path imports, but does not use."""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock


class Stand(ModuleType):
    """A module that has whatever is imported from it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Stands(MetaPathFinder, Loader):
    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = set(roots)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        stands = name in self.roots or any(name.startswith(f"{each}.") for each in self.roots)
        return ModuleSpec(name, self, is_package=True) if stands else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Stand(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it is empty."""


def stand_in(*roots: str) -> None:
    """Let these modules, and all below them, be imported."""
    sys.meta_path.insert(0, Stands(roots))
