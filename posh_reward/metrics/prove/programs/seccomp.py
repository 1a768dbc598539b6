"""Restrict this process to computing and to writing to its open pipes.

An irrevocable kernel filter of system calls (seccomp(2), BPF). Every call that is not listed fails
with EPERM: whatever Python code runs, it cannot open, remove or rename files, start or signal
processes, open sockets, or raise limits.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
"""PR_SET_NO_NEW_PRIVS and PR_SET_SECCOMP of prctl(2), and SECCOMP_MODE_FILTER."""

NEEDED = (
    *"write mmap mprotect munmap brk mremap madvise exit exit_group futex".split(),
    *"rt_sigaction rt_sigprocmask rt_sigreturn clock_gettime getrandom".split(),
)
"""System calls needed to compute and to write the result."""
NUMBERS = {
    "x86_64": (1, 9, 10, 11, 12, 25, 28, 60, 231, 202, 13, 14, 15, 228, 318),
    "aarch64": (64, 222, 226, 215, 214, 216, 233, 93, 94, 98, 134, 135, 139, 113, 278),
}
"""Machine -> the numbers of ``NEEDED``, in that order."""
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # machine -> its AUDIT_ARCH constant

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF: load a word; jump if it is equal, or at least as large; return."""
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
NUMBER_AT, MACHINE_AT = 0, 4  # offsets into struct seccomp_data
X32 = 0x40000000  # numbers from here on are aliases of the same calls


def is_supported() -> bool:
    """Return True if there is a filter for this machine."""
    return sys.platform == "linux" and platform.machine() in NUMBERS


def seal() -> bool:
    """Apply the filter irrevocably; return True on success."""
    if not is_supported():
        return False
    machine = platform.machine()
    code = program(MACHINES[machine], NUMBERS[machine])
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog { unsigned short len; struct sock_filter *filter; }
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    )
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    return not prctl(SECCOMP, FILTER, ctypes.addressof(header), 0, 0)


def sealable() -> bool:
    """Return True if ``seal`` works here, as tried in a fork."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if seal() else 1)
    return os.waitpid(pid, 0)[1] == 0


def program(machine: int, calls: tuple[int, ...]) -> bytes:
    """Assemble the filter: eight bytes per instruction (code, jumps if true and false, operand)."""
    last = len(calls)
    lines = [
        (LOAD, 0, 0, MACHINE_AT),
        (EQUAL, 1, 0, machine),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
        (AT_LEAST, last, 0, X32),
        *((EQUAL, last - place, 0, call) for place, call in enumerate(calls)),
        (RETURN, 0, 0, FAIL),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)
