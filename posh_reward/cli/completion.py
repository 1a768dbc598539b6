"""``posh-reward --print-completion SHELL``: the script with which a shell completes commands."""

from __future__ import annotations

import argparse

from posh_reward.errors import MissingDependencyError, install_command

FILE_NAMES = ("FILE", "INPUT", "OUT", "HTML", "SCORES", "PATH", "GENERATIONS", "KEY", "ANSWERS")
FOLDER_NAMES = ("DIR", "PACKET")
"""Names in the help of values that are files, and folders."""


def write_completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script for a shell, with all commands, their flags and which values are files."""
    try:
        import shtab
    except ImportError:
        raise MissingDependencyError(
            f"completion needs shtab: {install_command('completion')}"
        ) from None
    _mark_files(parser, shtab.FILE, shtab.DIRECTORY)
    script: str = shtab.complete(parser, shell)
    return script


def _mark_files(parser: argparse.ArgumentParser, file: object, folder: object) -> None:
    """Set the attribute ``complete``, which shtab reads, on arguments that are files or folders."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_files(command, file, folder)
        elif action.metavar in FILE_NAMES:
            vars(action)["complete"] = file
        elif action.metavar in FOLDER_NAMES:
            vars(action)["complete"] = folder
