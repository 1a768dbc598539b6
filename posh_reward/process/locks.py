"""Guards between processes: against scoring in a fork, and against two writers of one file.

A fork copies every lock but only one thread. A lock that another thread held at that moment (in
``functools.cached_property`` before Python 3.12, spaCy, torch or user code) is never released, and
whoever needs it in the fork waits forever.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from posh_reward.errors import BusyError, ForkError

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
"""File in a folder that one process at a time may write."""

_kept_folders: dict[Path, int] = {}  # lock -> descriptor, open until this process ends
_calls_in_progress: Counter[int] = Counter()  # nested ones, by thread
_forked_while_scoring = False


@contextmanager
def at_work() -> Iterator[None]:
    """Mark this thread as scoring."""
    if _forked_while_scoring:
        raise ForkError(
            "this process was forked while another thread was scoring, and may wait forever for "
            "a lock of that thread: fork before the first score, fork between calls, or start "
            "the process with multiprocessing.get_context('spawn')"
        )
    thread = threading.get_ident()
    _calls_in_progress[thread] += 1
    try:
        yield
    finally:
        _calls_in_progress[thread] -= 1
        if not _calls_in_progress[thread]:
            del _calls_in_progress[thread]


def _drop_other_threads() -> None:
    # Only the thread that forked exists here.
    global _forked_while_scoring
    own = threading.get_ident()
    for thread in list(_calls_in_progress):
        if thread != own:
            _forked_while_scoring = True
            del _calls_in_progress[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_other_threads)


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
            _lock_file(file, path)
            # Whoever held the lock may have deleted or renamed the file before we got it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file that takes its name only once the block has succeeded and the data is on disk.

    ``mode`` is the file's permissions, less the umask, from its creation on. A link is replaced,
    not followed, unless it leads to a device or a pipe, which is written to.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(path.name + ".part")
    if part.is_symlink():  # this name is ours: a link there was planted
        part.unlink()
    with open_alone(part, mode, os.O_NOFOLLOW) as file:
        try:
            file.truncate()  # what a kill left
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def keep_folder(folder: Path, name: str = LOCK_FILE) -> None:
    """Keep other processes from writing a folder, made if missing, until this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / name
    if path not in _kept_folders:
        with open_alone(path) as file:
            _kept_folders[path] = os.dup(file.fileno())  # the lock lasts as long as any of the two


def _lock_file(file: IO[Any], path: Path) -> None:
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
