"""The command ``posh-reward``: score a table, explain one pair, report on scores.

Texts and scores go to standard output or to a file, all other messages to standard error. Only the
modules of the command that is run are loaded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from posh_reward.errors import JudgeError, PoshError, safe, shortened

OK = 0
UNUSABLE = 2
INCOMPLETE = 3
JUDGE = 4
UNWRITABLE = 5
INTERRUPTED = 130
UNREAD = 141
LONGEST_MESSAGE = 1000  # characters of an error: a judge's last words may be long
EXITS = f"""\
exit status:
  {OK}    done; every pair has a score, or every file of answers counts
  {UNUSABLE}    flags, configuration or input cannot be used, or a package is missing
  {INCOMPLETE}    done, but some pairs have no score, files do not count, or a calibration was not
       saved, since it settles nothing; each with its reason
  {JUDGE}    the judge could not work; what was scored is kept, run it again to go on
  {UNWRITABLE}    the output could not be written; what was scored is kept, run it again to go on
  {INTERRUPTED}  interrupted; what was scored is kept, run it again to go on
  {UNREAD}  standard output was closed by its reader
"""
COMMANDS = {
    "score": ("score_command:add_score", "score the pairs of a table"),
    "explain": ("score_command:add_explain", "show one pair with marks"),
    "report": ("report_command:add_report", "write a page about scores"),
    "agreement": ("agreement_flags:add_agreement", "measure agreement with people"),
    "calibrate": ("calibrate:add_calibrate", "fit weights to people's judgments"),
    "judges": ("judge_commands:add_judges", "compare judges, collect their answers"),
    "attack": ("attack_command:add_attack", "search for what a reward pays wrongly"),
    "packets": ("packets:add_packets", "let people compare models, blind"),
    "prove": ("sibling_commands:add_prove", "make questions about images, score responses"),
    "harmonic": ("sibling_commands:add_harmonic", "score texts about images, no references"),
    "rubric": ("sibling_commands:add_rubric", "score texts by points, with reasons"),
    "serve": ("serve_command:add_serve", "score for many clients, over HTTP"),
    "store": ("housekeeping:add_store", "look into a store, or clear it"),
    "fetch": ("housekeeping:add_fetch", "download what a run needs"),
    "doctor": ("doctor:add_doctor", "try all that a run needs of this node"),
    "init": ("housekeeping:add_init", "copy recipes and configurations"),
}
"""Name -> ``module:function`` that adds its flags, and its line in ``--help``."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the list of all flags."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end the process."""
        text = shortened(safe(message), LONGEST_MESSAGE)
        self.exit(UNUSABLE, f"{self.prog}: {text} (flags: {self.prog} --help)\n")


def command_line(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command; each of its commands sets ``command``, a function.

    Only the command that ``argv`` names gets its flags, which saves loading the others' modules.
    """
    parser = CommandParser(
        "posh-reward",
        description="POSH: how truthful and how complete descriptions of images are.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=PrintVersion, nargs=0, help="show the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    names = list(COMMANDS) if argv is None else [each for each in argv if each in COMMANDS][:1]
    for name, (place, words) in COMMANDS.items():
        command = commands.add_parser(name, help=words)
        if name in names:
            module, _, function = place.partition(":")
            getattr(import_module(f"posh_reward.cli.{module}"), function)(command)
    return parser


class PrintVersion(argparse.Action):
    """Print the version, which takes reading the package's metadata, only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and exit."""
        from posh_reward.metrics.metric import package_version

        print(f"{parser.prog} {package_version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
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
    try:
        words = sys.argv[1:] if argv is None else argv
        flags = command_line(words).parse_args(words)
        status: int = flags.command(flags)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
    return status


def _fail(why: str, status: int) -> int:
    with suppress(OSError):  # nowhere left to say it
        print(f"posh-reward: {shortened(safe(why), LONGEST_MESSAGE)}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Keep the interpreter from flushing once more what cannot be written to standard output."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
