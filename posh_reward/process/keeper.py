"""A process between parent and child: ends the child and all its descendants with the parent.

    python -I -S keeper.py PARENT_PID COMMAND...

A heavy child cannot be trusted to end itself: the kernel's own tie to a parent
(PR_SET_PDEATHSIG) breaks when the *thread* that started the child ends, and does not reach the
child's children; a thread in the child that watches the parent does not run while a library
holds the interpreter's lock. This process has one thread, does nothing else, and can do both.

Descendants that leave the child's process group, or its session, are found by their parent:
orphans fall to this process (PR_SET_CHILD_SUBREAPER; Linux only). It ends as the child did, with
its exit status or by its signal, and only when nothing that the child has started is left.
SIGTERM ends all of it.
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

POLL = 0.2  # seconds between looks at the parent
DEATH_SIGNAL, SUBREAPER = 1, 36  # PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of prctl(2)
NOT_RUN = 127  # exit status, as a shell's, when the command cannot be run


class Child:
    """The command at work, and whatever it has started."""

    def __init__(self, command: list[str]) -> None:
        keeper = os.getpid()
        self.pid = os.fork()
        self.status: int | None = None  # as of wait(2); None until it has ended
        if self.pid == 0:
            become(command, keeper)
        with suppress(OSError):  # both sides do this, since either may be first
            os.setpgid(self.pid, self.pid)

    def runs(self) -> bool:
        """True until the command has ended."""
        self.reap()
        return self.status is None

    def reap(self) -> bool:
        """Take note of all that has ended; return True if anything is left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.status = status
        return False

    def end(self) -> None:
        """Kill and reap all; wait for what cannot die yet, such as a call into a broken card."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        # In rounds: whoever dies leaves its children to this process, which can see them only then.
        pause = 0.001
        while self.reap():
            for pid in own_children():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 1.0)


def main() -> None:
    """Keep the command that the arguments name."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signals = signal_pipe()
    prctl(SUBREAPER, 1)
    child = Child(command)
    let_go_of_pipes()
    numbers: bytes = b""
    while child.runs() and signal.SIGTERM not in numbers and os.getppid() == parent:
        ready, _, _ = select.select([signals], [], [], POLL)
        numbers = os.read(signals, 4096) if ready else b""
    child.end()
    assert child.status is not None
    end_like(child.status)


def become(command: list[str], keeper: int) -> None:
    """Turn this fork into the command; it dies with the keeper."""
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the command
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == keeper:  # else it died before the signal was set
            os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error}\n".encode())
    finally:
        os._exit(NOT_RUN)


def signal_pipe() -> int:
    """A file descriptor to read the signals from that this process gets, one byte each."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for each in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    return reading


def let_go_of_pipes() -> None:
    """Close stdin and stdout here: they end for the parent when the child's ends close."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def own_children() -> Iterator[int]:
    """Processes whose parent is this one, orphans that fell to it included; none without /proc."""
    own = str(os.getpid())
    with suppress(FileNotFoundError):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
                    # pid (name) state parent ...; the name may hold anything
                    if file.read().rpartition(b")")[2].split()[1].decode() == own:
                        yield int(entry)


def prctl(option: int, value: int) -> None:
    """Set one of Linux's process options; nothing elsewhere."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_like(status: int) -> None:
    """End this process with the exit status, or by the signal, that a child ended with."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child's core is the one to read
        with suppress(OSError):  # SIGKILL has no other disposition
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
