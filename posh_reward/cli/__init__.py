"""The command ``posh-reward``: score a table, explain one pair, report on scores.

Texts and scores go to standard output or a file, all other messages to standard error. A command
loads only its own modules.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from textwrap import fill, indent
from typing import Any, NoReturn

from posh_reward.errors import JudgeError, PoshError, cut_middle, escape_controls
from posh_reward.process.progress import on_terminal
from posh_reward.process.python import SAFE_PATH
from posh_reward.settings import suggest_name

EXIT_OK = 0
EXIT_UNUSABLE = 2
EXIT_INCOMPLETE = 3
EXIT_JUDGE_FAILED = 4
EXIT_UNWRITABLE = 5
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CLOSED = 141
MAX_MESSAGE_CHARACTERS = 1000  # of an error: a judge's output may be long
EXIT_STATUS_HELP = f"""\
exit status:
  {EXIT_OK}    success
  {EXIT_UNUSABLE}    unusable flags, configuration or input, or a missing package
  {EXIT_INCOMPLETE}    finished, but some pairs have no score, \
or some answer files do not
       count; each with its reason
  {EXIT_JUDGE_FAILED}    the judge failed
  {EXIT_UNWRITABLE}    the output could not be written
  {EXIT_INTERRUPTED}  interrupted
  {EXIT_OUTPUT_CLOSED}  the reader of standard output closed it
After {EXIT_JUDGE_FAILED}, {EXIT_UNWRITABLE} and {EXIT_INTERRUPTED} \
finished work is kept, and the same command resumes.
"""
NUMBER_TYPES = ("int", "float", "count", "positive")
"""Names of the types of flags that take a number."""
COMMANDS = {
    "score": ("score_command:add_score", "score the pairs of a table"),
    "explain": ("score_command:add_explain", "show one pair, with what was not found marked"),
    "report": ("report_command:add_report", "write a page about scores, or a run's completions"),
    "agreement": ("agreement:add_agreement", "measure how well metrics agree with people"),
    "judges": ("judge_commands:add_judges", "compare judges, or collect a judge's answers"),
    "attack": ("audit_commands:add_attack", "search for texts that a reward overpays"),
    "audit-references": ("audit_commands:add_references", "find references that teach omissions"),
    "trace": ("trace_command:add_trace", "follow a file back to the weights behind it"),
    "packets": ("packets:add_packets", "have people compare models, blind"),
    "prove": ("other_metrics:add_prove", "write questions about images, score responses"),
    "harmonic": ("other_metrics:add_harmonic", "score texts about images, without references"),
    "rubric": ("other_metrics:add_rubric", "score texts by a rubric, with reasons"),
    "serve": ("serve_command:add_serve", "serve the metric over HTTP"),
    "fetch": ("housekeeping:add_fetch", "download what a run needs"),
    "doctor": ("housekeeping:add_doctor", "check that this node can run a recipe"),
    "init": ("housekeeping:add_init", "copy recipes and configurations"),
}
"""Name -> ``module:function`` that adds its flags, and its line in ``--help``."""


SHELLS = ("bash", "zsh", "tcsh")  # whose completion can be printed
MAX_HELP_LINES = 50  # that fit a screen
ALL_HELP_FLAG = "--help-all"
BASIC_GROUPS = ("positional arguments", "options")  # argparse's titles


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Paragraphs as wide as the terminal, numbers as N, and each flag's default."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._action_max_length = 14  # argparse forgets the indent of commands' names

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Fill the paragraphs that are too wide, but for those with indented lines."""
        return "\n\n".join(_fill_paragraph(each, width) for each in text.split("\n\n"))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Show the value of a flag with two names once: ``-o, --output OUT``."""
        text = super()._format_action_invocation(action)
        *shorter, longest = action.option_strings or [""]
        if not shorter or action.nargs == 0:
            return text
        return f"{', '.join(shorter)}, {longest} {text.rpartition(f'{longest} ')[2]}"

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        if getattr(action.type, "__name__", "") in NUMBER_TYPES:
            return "N"
        return super()._get_default_metavar_for_optional(action)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None,
    ) -> str:
        """Show only what must be given; all flags follow below, with their meaning."""
        needed = [each for each in actions if each.required or each.nargs == argparse.PARSER]
        text = super()._format_usage(usage, needed, (), prefix)
        if prefix is not None:  # argparse: the start of its subcommands' usage
            return text
        return f"{text.rstrip()} [flags]\n\n"

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        printable = isinstance(default, str | int | float) and default not in (
            "",
            argparse.SUPPRESS,
        )
        if not printable or default is False or "default" in text:
            return text
        return f"{text} (default: %(default)s)"


def _fill_paragraph(text: str, width: int) -> str:
    lines = text.split("\n")
    if max(map(len, lines)) <= width or any(line.startswith(" ") for line in lines):
        return text
    return fill(" ".join(lines), width)


class CommandParser(argparse.ArgumentParser):
    """A parser whose help fits a screen, and whose errors are one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "add_help": False})
        statuses = "; exit statuses: posh-reward --help" if " " in self.prog else ""
        self.add_argument("-h", "--help", action="help", help=f"show this help{statuses}")
        self.add_argument(ALL_HELP_FLAG, action=PrintAllHelp, nargs=0, help=argparse.SUPPRESS)

    def format_help(self) -> str:
        """Return the help; if it does not fit a screen, the last groups' flags are only listed."""
        groups = [each for each in self._action_groups if each.title not in BASIC_GROUPS]
        for shown in range(len(groups), -1, -1):
            text = self.format_help_of(groups[shown:])
            if text.count("\n") <= MAX_HELP_LINES:
                break
        return text

    def format_help_of(self, listed: Sequence[Any] = ()) -> str:
        """Return the help, in which the flags of some groups are ``listed`` but not explained."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            if group in listed:
                continue
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        lines = [f"{self.prog} {ALL_HELP_FLAG} also explains"]
        for group in listed:
            names = [action.option_strings[-1] for action in group._group_actions]
            words = f"{group.title}: {', '.join(names)}"
            width = formatter._width - 2
            words = fill(words, width, subsequent_indent="  ", break_on_hyphens=False)
            lines.append(indent(words, "  "))
        if listed:
            formatter.add_text("\n".join(lines))
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def parse_known_args(self, *args: Any, **options: Any) -> tuple[Any, list[str]]:
        """Refuse an unknown flag where its command is known, with the most similar flag."""
        flags, unknown = super().parse_known_args(*args, **options)
        if unknown:
            first = next((each for each in unknown if each.startswith("-")), None)
            if first is None:
                self.error(f"{unknown[0]!r} is one argument too many")
            hint = suggest_name(first.partition("=")[0], self._option_string_actions)
            self.error(f"unknown argument {first}{hint}")
        return flags, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, with the most similar one."""
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        hint = suggest_name(value, known)
        raise argparse.ArgumentError(action, f"{value!r}{hint} is none of {', '.join(known)}")

    def error(self, message: str) -> NoReturn:
        text = cut_middle(escape_controls(message), MAX_MESSAGE_CHARACTERS)
        self.exit(EXIT_UNUSABLE, f"{self.prog}: {text} (flags: {self.prog} --help)\n")


def command_line(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser, whose subcommands set ``command``, a function of the parsed flags.

    Only the subcommand that ``argv`` names gets its flags, so the others' modules are not loaded.
    """
    parser = CommandParser(
        "posh-reward",
        description="POSH: measure how truthful and complete descriptions of images are.",
        epilog=f"flags of a command: posh-reward COMMAND --help\n\n{EXIT_STATUS_HELP}",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--version", action=PrintVersion, nargs=0, help="print the version and exit"
    )
    parser.add_argument(
        "--print-completion", action=PrintCompletion, choices=SHELLS, metavar="SHELL",
        help=f"print a script for completion ({', '.join(SHELLS)}) and exit",
    )  # fmt: skip
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    names = list(COMMANDS)
    if argv is not None:
        names = [each for each in argv if each in COMMANDS][:1]
    for name, (place, words) in COMMANDS.items():
        command = commands.add_parser(name, help=words)
        if name in names:
            module, _, function = place.partition(":")
            getattr(import_module(f"posh_reward.cli.{module}"), function)(command)
    return parser


class PrintAllHelp(argparse.Action):
    """Explain all flags, however many lines that takes."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, CommandParser)
        print(parser.format_help_of(), end="")
        parser.exit()


class PrintVersion(argparse.Action):
    """Read the version from the package's metadata only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from posh_reward.metrics.metric import package_version

        print(f"{parser.prog} {package_version()}")
        parser.exit()


class PrintCompletion(argparse.Action):
    """Print what a shell needs to complete commands, flags and files."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object) -> None:
        from posh_reward.cli.completion import write_completion

        print(write_completion(command_line(), shell))
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stderr is None:  # closed by the shell: print() would write to standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    try:
        status = _run_command(argv)
    except BrokenPipeError:
        _discard_output()
        return EXIT_OUTPUT_CLOSED
    except KeyboardInterrupt:
        return _print_error("interrupted; what was written is kept", EXIT_INTERRUPTED)
    except JudgeError as error:
        return _print_error(f"the judge could not work: {error}", EXIT_JUDGE_FAILED)
    except PoshError as error:
        return _print_error(str(error), EXIT_UNUSABLE)
    except PermissionError as error:
        _discard_output()
        why = f"no permission to read or write {error.filename!r}"
        return _print_error(why, EXIT_UNWRITABLE)
    except OSError as error:
        _discard_output()
        return _print_error(f"could not write: {error}", EXIT_UNWRITABLE)
    return status


def _run_command(argv: Sequence[str] | None) -> int:
    try:
        if argv is None:
            argv = sys.argv[1:]
            os.environ.update(SAFE_PATH)  # of all descendants
            _calm_libraries()
        if not argv:
            command_line(argv).print_help()
            return EXIT_OK
        flags = command_line(argv).parse_args(argv)
        status: int = flags.command(flags)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
    return status


def _calm_libraries() -> None:
    """Keep libraries' lines about each retry, and bars that no terminal shows, out of our output.

    They read these variables when they are imported.
    """
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    if not on_terminal():
        for library in ("HUB", "DATASETS"):
            os.environ.setdefault(f"HF_{library}_DISABLE_PROGRESS_BARS", "1")


def _print_error(why: str, status: int) -> int:
    text = cut_middle(escape_controls(why), MAX_MESSAGE_CHARACTERS)
    with suppress(OSError):  # standard error may be closed, too
        print(f"posh-reward: {text}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Keep the interpreter from flushing unwritable output again at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
