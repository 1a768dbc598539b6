"""The command ``posh-reward``: score a table, explain one pair, report on scores.

Texts and scores go to standard output or to a file; everything else that is said goes to
standard error. Heavy modules are loaded after the flags have been checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from posh_reward.cli.exits import INTERRUPTED, JUDGE, UNREAD, UNUSABLE, UNWRITABLE
from posh_reward.cli.flags import command_line
from posh_reward.errors import JudgeError, PoshError, safe


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    if sys.stderr is None:  # closed by the shell: print() would turn to standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    try:
        status = _run(argv)
    except BrokenPipeError:
        _discard_output()
        return UNREAD
    except KeyboardInterrupt:
        return _fail("interrupted; what was written is kept", INTERRUPTED)
    except JudgeError as error:
        return _fail(f"the judge could not work: {error}", JUDGE)
    except PoshError as error:
        return _fail(str(error), UNUSABLE)
    except OSError as error:
        _discard_output()
        return _fail(f"could not write: {error}", UNWRITABLE)
    return status


def _run(argv: Sequence[str] | None) -> int:
    """Runs one command, up to the last byte of its output."""
    try:
        flags = command_line().parse_args(argv)
        status: int = flags.command(flags)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
    return status


def _fail(why: str, status: int) -> int:
    with suppress(OSError):  # nowhere left to say it
        print(f"posh-reward: {safe(why)}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Keeps the interpreter from trying once more to flush what cannot be written, if it cannot.

    The file that could not be written may be another: then standard output stays the caller's.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
