"""The process that runs programs, each in its own fork.

Started by ``sandbox``; needs only the standard library. The protocol is one JSON object per line::

    worker:  {"ready": true, "sealed": true}
    parent:  {"id": 7, "program": "def verify(sg): ...", "nodes": {...}}
    worker:  {"id": 7, "seconds": 0.004, "value": ["red"]}
             {"id": 7, "seconds": 2.0, "error": "it took more than 2 s"}

A fork cannot open files, exceed its memory or time, or make other system calls (``seccomp``). It
keeps only the writing end of one pipe, for its answer.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import ctypes
import errno
import json
import math
import os
import platform
import resource
import select
import signal
import struct
import sys
import time
import unicodedata  # noqa: F401 - compilers load it for names like "café", which no fork could
import warnings
from contextlib import suppress
from typing import IO, Any, NamedTuple

from posh_reward.other_metrics.prove.program_language import (
    ALLOWED_BUILTINS,
    MEMORY_ADDRESS,
    ProgramScene,
    ProgramText,
    parse_program,
    to_plain_data,
)

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
"""PR_SET_NO_NEW_PRIVS and PR_SET_SECCOMP of prctl(2), and SECCOMP_MODE_FILTER."""

NEEDED_CALLS = (
    *"write mmap mprotect munmap brk mremap madvise exit exit_group futex".split(),
    *"rt_sigaction rt_sigprocmask rt_sigreturn clock_gettime getrandom".split(),
)
"""System calls needed to compute and to write the result."""
CALL_NUMBERS = {
    "x86_64": (1, 9, 10, 11, 12, 25, 28, 60, 231, 202, 13, 14, 15, 228, 318),
    "aarch64": (64, 222, 226, 215, 214, 216, 233, 93, 94, 98, 134, 135, 139, 113, 278),
}
"""Machine -> the numbers of ``NEEDED_CALLS``, in that order."""
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine -> its AUDIT_ARCH constant."""

BPF_LOAD_WORD, BPF_JUMP_IF_EQUAL, BPF_JUMP_IF_AT_LEAST, BPF_RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF: load a word; jump if it is equal, or at least as large; return."""
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_EPERM = 0x00050000 | errno.EPERM
SECCOMP_RET_KILL = 0x80000000
CALL_NUMBER_OFFSET, MACHINE_OFFSET = 0, 4  # offsets into struct seccomp_data
X32_CALL_BIT = 0x40000000  # numbers from here on are aliases of the same calls


def has_filter() -> bool:
    """Return True if there is a filter for this machine."""
    return sys.platform == "linux" and platform.machine() in CALL_NUMBERS


def block_system_calls() -> bool:
    """Apply the filter irrevocably; return True on success."""
    if not has_filter():
        return False
    machine = platform.machine()
    code = assemble_filter(AUDIT_ARCHITECTURES[machine], CALL_NUMBERS[machine])
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog { unsigned short len; struct sock_filter *filter; }
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    )
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return not prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0)


def can_block_system_calls() -> bool:
    """Return True if ``block_system_calls`` works here, as tried in a fork."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if block_system_calls() else 1)
    return os.waitpid(pid, 0)[1] == 0


def assemble_filter(machine: int, calls: tuple[int, ...]) -> bytes:
    """Assemble the filter: eight bytes per instruction (code, jumps if true and false, operand)."""
    last = len(calls)
    lines = [
        (BPF_LOAD_WORD, 0, 0, MACHINE_OFFSET),
        (BPF_JUMP_IF_EQUAL, 1, 0, machine),
        (BPF_RETURN, 0, 0, SECCOMP_RET_KILL),
        (BPF_LOAD_WORD, 0, 0, CALL_NUMBER_OFFSET),
        (BPF_JUMP_IF_AT_LEAST, last, 0, X32_CALL_BIT),
        *((BPF_JUMP_IF_EQUAL, last - place, 0, call) for place, call in enumerate(calls)),
        (BPF_RETURN, 0, 0, SECCOMP_RET_EPERM),
        (BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


MAX_ANSWER_BYTES = 65_536
MAX_ERROR_CHARACTERS = 200
MAX_RECURSION_DEPTH = 300
TEXT_TYPE_NAME = "_text"
"""Name of ProgramText in f-strings; programs cannot use names that start with _."""
ZERO_LIMITS = (("RLIMIT_NOFILE", 0), ("RLIMIT_NPROC", 0), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0))
"""A fork opens no files, starts no processes, and writes nothing to files."""


class Bounds(NamedTuple):
    """Limits of one program."""

    seconds: float  # of computing
    patience: float  # wall-clock seconds per second of computing
    bytes: int  # of memory
    sealed: bool  # True if the kernel can block its system calls


def main() -> None:
    """Answer requests until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--patience", type=float, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    flags = parser.parse_args()
    replies = claim_stdout()
    warnings.simplefilter("ignore")  # printing a warning would open files
    bounds = Bounds(flags.seconds, flags.patience, flags.bytes, can_block_system_calls())
    send_reply(replies, {"ready": True, "sealed": bounds.sealed})
    for line in sys.stdin:
        request = json.loads(line)
        send_reply(replies, {**run_in_fork(request, bounds), "id": request["id"]})


def claim_stdout() -> IO[str]:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def send_reply(replies: IO[str], reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def run_in_fork(request: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Return one program's value or error, and its processor time."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            set_limits(writing, bounds)
            write_answer(request)
        finally:
            os._exit(1)
    os.close(writing)
    message = read_until(reading, time.monotonic() + bounds.patience * bounds.seconds)
    os.close(reading)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    silent = {"error": explain_silence(os.waitstatus_to_exitcode(status), bounds.seconds)}
    return {**(parse_answer(message) or silent), "seconds": used.ru_utime + used.ru_stime}


def set_limits(writing: int, bounds: Bounds) -> None:
    """Close all files except the pipe, which becomes descriptor 0, and set all limits."""
    os.dup2(writing, 0)
    os.closerange(1, 256)
    sys.setrecursionlimit(MAX_RECURSION_DEPTH)
    signal.setitimer(signal.ITIMER_PROF, bounds.seconds)
    whole = math.ceil(bounds.seconds)
    for name, bound in (*ZERO_LIMITS, ("RLIMIT_CPU", whole), ("RLIMIT_AS", bounds.bytes)):
        with suppress(ValueError, OSError):  # not every system has each
            resource.setrlimit(getattr(resource, name), (bound, bound))
    if bounds.sealed and not block_system_calls():
        raise OSError("the kernel refuses the filter of system calls")


def write_answer(request: dict[str, Any]) -> None:
    """Run the program and write its value, or its error without a traceback."""
    try:
        message = {"value": to_plain_data(run_program(request["program"], request["nodes"]))}
    except BaseException as error:
        text = MEMORY_ADDRESS.sub("", f"{type(error).__name__}: {error}")
        message = {"error": text[:MAX_ERROR_CHARACTERS]}
    data = json.dumps(message).encode()
    while data:
        data = data[os.write(0, data) :]
    os._exit(0)


def run_program(program: str, nodes: Any) -> object:
    names = {name: getattr(builtins, name) for name in ALLOWED_BUILTINS}
    scope: dict[str, Any] = {
        "__builtins__": {**names, "str": ProgramText, TEXT_TYPE_NAME: ProgramText},
        "__name__": "program",
    }
    exec(compile(_convert_with_program_text(parse_program(program)), "program", "exec"), scope)  # noqa: S102
    functions = [value for name, value in scope.items() if not name.startswith("__")]
    return functions[-1](ProgramScene(nodes))


def _convert_with_program_text(tree: ast.Module) -> ast.Module:
    """Make f-strings convert values with ``ProgramText``, like calls of ``str``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            node.value = ast.Call(ast.Name(TEXT_TYPE_NAME, ast.Load()), [node.value], [])
    return ast.fix_missing_locations(tree)


def read_until(reading: int, end: float) -> bytes:
    """Read a pipe until it closes, the time ``end`` is reached, or the answer is too long."""
    message = b""
    while len(message) <= MAX_ANSWER_BYTES:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
        some = os.read(reading, MAX_ANSWER_BYTES) if ready else b""
        if not some:
            break
        message += some
    return message


def parse_answer(message: bytes) -> dict[str, Any] | None:
    """Parse a fork's answer and check it again: a program that broke out could have written it."""
    with suppress(ValueError, RecursionError):
        answer = json.loads(message)
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            return {"error": answer["error"][:MAX_ERROR_CHARACTERS]}
        if isinstance(answer, dict) and answer.keys() == {"value"}:
            return {"value": to_plain_data(answer["value"])}
    return None


def explain_silence(code: int, seconds: float) -> str:
    """Explain a missing answer by the fork's exit status."""
    if -code in (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL):
        return f"it took more than {seconds:g} s"
    return f"it ended its process ({signal.Signals(-code).name if code < 0 else code})"
