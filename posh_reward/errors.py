"""Errors for a caller's mistakes. Each names the value and the remedy.

A judgment that fails is not an error but a ``Verdict`` without probabilities.
"""

from __future__ import annotations


class PoshError(Exception):
    """Base of all errors that this package raises on purpose."""


class InputError(PoshError, ValueError):
    """An argument has a value that cannot be used."""


class MissingDependencyError(PoshError, ImportError):
    """An optional package or model is not installed; the message has the command."""


class JudgeError(PoshError, RuntimeError):
    """A judge cannot work at all (as opposed to one judgment that failed)."""


class ConfigError(PoshError, ValueError):
    """A configuration file or flag has a value that cannot be used."""
