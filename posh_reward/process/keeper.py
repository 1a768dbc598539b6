"""A process between parent and child that ends the child and all its descendants with the parent.

    python -I -S keeper.py PARENT_PID COMMAND...

A child cannot be relied on to end itself: the kernel's PR_SET_PDEATHSIG fires when the *thread*
that started the child ends and does not reach the child's children, and a thread in the child
that watches the parent does not run while a library holds the interpreter's lock. This process
has one thread and does nothing else.

Descendants that leave the child's process group or session are still found: orphans become
children of this process (PR_SET_CHILD_SUBREAPER; Linux only). It ends after all of them, with the
child's exit status or by its signal. SIGTERM ends everything, and SIGINT is passed on.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

POLL_SECONDS = 0.2  # between checks of the parent
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # options of prctl(2)
EXIT_NOT_RUN = 127  # exit status if the command cannot be run, as in a shell


class Child:
    """The running command and its descendants."""

    def __init__(self, command: list[str]) -> None:
        keeper = os.getpid()
        self.pid = os.fork()
        self.status: int | None = None  # as from wait(2); None while it runs
        if self.pid == 0:
            execute_command(command, keeper)
        with suppress(OSError):  # both processes do this: either may be first
            os.setpgid(self.pid, self.pid)

    def is_running(self) -> bool:
        """Return True until the command has ended."""
        self.reap()
        return self.status is None

    def reap(self) -> bool:
        """Reap ended processes; return True if any are left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.status = status
        return False

    def end(self) -> None:
        """Kill and reap all, waiting for those stuck in the kernel, as in a broken GPU's driver."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        # In rounds: the children of a process become visible here only after it has died.
        pause = 0.001
        while self.reap():
            for pid in own_children():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 1.0)


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signals = signal_pipe()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = Child(command)
    release_pipes()
    received = b""
    while child.is_running() and signal.SIGTERM not in received and os.getppid() == parent:
        ready, _, _ = select.select([signals], [], [], POLL_SECONDS)
        received = os.read(signals, 4096) if ready else b""
        if signal.SIGINT in received:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGINT)
    child.end()
    assert child.status is not None
    end_like(child.status)


def execute_command(command: list[str], keeper: int) -> None:
    """Execute the command in this fork, set to die with the keeper."""
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ignored in Python, and would be inherited
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:  # else the keeper died before prctl
            os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error}\n".encode())
    finally:
        os._exit(EXIT_NOT_RUN)


def signal_pipe() -> int:
    """Return a file descriptor that receives one byte for each signal."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return reading


def release_pipes() -> None:
    """Close stdin and stdout here, so that the parent sees the child close them."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def own_children() -> Iterator[int]:
    """Yield the children of this process, adopted orphans included; none without /proc."""
    own = str(os.getpid())
    with suppress(FileNotFoundError):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
                    # pid (name) state parent ...; the name may contain anything
                    if file.read().rpartition(b")")[2].split()[1].decode() == own:
                        yield int(entry)


def prctl(option: int, value: int) -> None:
    """Set a process option on Linux; do nothing elsewhere."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_like(status: int) -> None:
    """Exit with a child's exit status, or by its signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # only the child's core dump is useful
        with suppress(OSError):  # SIGKILL cannot be changed
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
