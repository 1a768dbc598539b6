"""Locks that keep two processes from writing one file."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from posh_reward.errors import BusyError

logger = logging.getLogger(__name__)

LOCK = ".lock"
"""File in a folder that one process at a time may write."""
_folders: dict[Path, int] = {}  # lock -> descriptor, open until this process ends


def open_alone(path: Path, mode: int = 0o666, flags: int = 0) -> IO[bytes]:
    """Open a file to read and write, which nobody else can open so until it is closed.

    The kernel releases the lock when the process ends, however it ends. A file system without locks
    (Lustre mounted without ``flock``) gets a warning instead.
    """
    create = os.O_CREAT | flags
    while True:
        descriptor = os.open(path, os.O_RDWR | create, mode)
        file = os.fdopen(descriptor, "r+b")
        try:
            _lock(file, path)
            # Whoever held the lock may have deleted or renamed the file before we got it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def keep_folder(folder: Path, name: str = LOCK) -> None:
    """Keep other processes from writing a folder, made if missing, until this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / name
    if path not in _folders:
        with open_alone(path) as file:
            _folders[path] = os.dup(file.fileno())  # the lock lasts as long as any of the two


def _lock(file: IO[Any], path: Path) -> None:
    import fcntl  # Windows has none

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"another process writes {str(path)!r}: wait until it has ended, or choose another "
            "output"
        ) from None
    except OSError as error:
        logger.warning(
            "%r cannot be locked (%s): let no other process write it", str(path), error.strerror
        )
