"""Flags that several commands share, and the objects made from them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from posh_reward.cli import EXIT_OK, HelpFormatter
from posh_reward.datasets.images import path_exists
from posh_reward.errors import InputError
from posh_reward.posh.load_metric import MetricSettings, load_metric, metric_flags
from posh_reward.process.locks import whole_file
from posh_reward.settings import shorten, shorten_list, trust_settings
from posh_reward.tables import tables

if TYPE_CHECKING:
    from posh_reward.posh.posh import PoSh
    from posh_reward.provenance import Origins
    from posh_reward.tables.dataset_images import DatasetImages
    from posh_reward.tables.engine import TableSettings
    from posh_reward.tables.item_ids import ItemIds
    from posh_reward.tables.references import ReferenceFile


AddFlag = Callable[..., argparse.Action]
"""``add_argument`` of a command or of a group of its flags."""
INPUT_FORMATS = "JSON lines, JSON, CSV, Parquet, workbook (data/README.md)"
SCORES_MEANING = fill(tables.SCORES_EXPLANATION + ".", 100)


def describe_command(
    parser: argparse.ArgumentParser, text: str, example: str = ""
) -> argparse.ArgumentParser:
    """Set a parser's description, and an example to show below its flags."""
    parser.description = text
    if example:
        parser.epilog = f"example:\n  posh-reward {example}"
    parser.formatter_class = HelpFormatter
    return parser


def add_subcommands(command: argparse.ArgumentParser, text: str) -> Any:
    """Describe a command that only prints its help by itself; return its subparsers."""
    describe_command(command, text)

    def print_help(_: argparse.Namespace) -> int:
        command.print_help()
        return EXIT_OK

    command.set_defaults(command=print_help)
    return command.add_subparsers(metavar="COMMAND")


def add_subcommand(
    commands: Any, name: str, line: str, text: str, example: str
) -> argparse.ArgumentParser:
    """Add one of the subparsers: ``line`` stands in the list of commands, ``text`` in its help."""
    return describe_command(commands.add_parser(name, help=line), text, example)


def add_files(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("input", metavar="INPUT", help=f"table: {INPUT_FORMATS}; - reads a pipe")
    add("-o", "--output", metavar="OUT", default="-", help="table to write: .jsonl, .csv, .tsv or "
        ".parquet (default: print JSON lines)")  # fmt: skip


def add_reading(command: argparse.ArgumentParser, *columns: str) -> AddFlag:
    """Add how a table is read; ``columns`` have by default the name of their flag."""
    add = command.add_argument_group("reading the input").add_argument
    for name in columns:
        add(f"--{name}", metavar="COLUMN", default=name, action=StoreOnce, help=f"{name} column")
    formats = tuple(tables.FORMATS)
    add("--format", metavar="FORMAT", choices=formats, help=f"{', '.join(formats)} (default: by "
        "what is in INPUT)")  # fmt: skip
    add("--delimiter", metavar="CHAR", help="cell separator of CSV, in and out (default: what the "
        "header shows)")  # fmt: skip
    return add


class StoreOnce(argparse.Action):
    """Store a column; refuse a second one, which would silently replace the first."""

    def __call__(
        self, parser: argparse.ArgumentParser, flags: argparse.Namespace, value: Any, *_: object
    ) -> None:
        first = getattr(flags, self.dest)
        if first not in (self.default, value):
            raise argparse.ArgumentError(
                self, f"{first!r} and {value!r}: name one column, and run the command for each"
            )
        setattr(flags, self.dest, value)


def add_columns(command: argparse.ArgumentParser, *texts: str) -> AddFlag:
    """Add how a table is read whose columns are texts, id, model and image."""
    add = add_reading(command, *texts)
    add("--id", metavar="COLUMN", help="id column (default: id, if present; else rows are numbered "
        "from 1)")  # fmt: skip
    add("--number-rows", action="store_true", help="number rows from 1 although there is a column "
        "id")  # fmt: skip
    add("--model", metavar="COLUMN", help="column of models, for a leaderboard (default: model, if "
        "present)")  # fmt: skip
    add("--image", metavar="COLUMN", help="column of images: paths or row numbers (default: image, "
        "if present)")  # fmt: skip
    add("--images", metavar="DIR", type=Path, help="folder of relative image paths (default: the "
        "table's)")  # fmt: skip
    return add


BATCH_ROWS = 32  # scored and written at a time, by default


def add_running(
    command: argparse.ArgumentParser, rows: str, batch: int | None = BATCH_ROWS
) -> AddFlag:
    """Add ``--batch``, ``--overwrite`` and ``--quiet``; ``rows`` names what is scored.

    Without a ``batch``, its default depends on the judge and the worker processes.
    """
    add = command.add_argument_group("running").add_argument
    default = batch or f"{BATCH_ROWS}, for each worker process"
    add("--batch", type=positive, default=batch, help=f"{rows} to score and write at a time "
        f"(default: {default})")  # fmt: skip
    add("--overwrite", action="store_true", help="discard the rows in OUT and start over")
    add("-q", "--quiet", action="store_true", help="print no progress bar and no summary")
    return add


def build_table_settings(
    flags: argparse.Namespace, texts: Mapping[str, str | None]
) -> TableSettings:
    from posh_reward.tables.engine import Columns, TableSettings

    columns = Columns(texts, flags.id, flags.model, flags.image, flags.number_rows)
    return TableSettings(
        columns,
        references=get_reference_file(flags),
        format=flags.format,
        delimiter=flags.delimiter,
        batch=flags.batch or BATCH_ROWS,
        overwrite=flags.overwrite,
        quiet=flags.quiet,
        images=flags.images,
    )


def add_reference_file(add: AddFlag) -> None:
    add("--references", metavar="FILE", help="table or benchmark's file of references, joined by "
        "id")  # fmt: skip


def get_reference_file(flags: argparse.Namespace) -> ReferenceFile | None:
    from posh_reward.tables.references import ReferenceFile

    if getattr(flags, "references", None) is None:
        return None
    return ReferenceFile(flags.references, flags.id, flags.reference)


def print_warnings(lines: Iterable[str], references: ReferenceFile | None = None) -> None:
    """Print warnings, and what a file of references lacks or has unused."""
    joined = references.lines() if references else ()
    for line in (*lines, *joined):
        print(f"warning: {line}", file=sys.stderr)


def count(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    return int(text)


def positive(text: str) -> int:
    return count(text, 1)


TEST_SPLIT = "test"


def add_dataset(add: AddFlag) -> None:
    add("--dataset", metavar="NAME", help="dataset whose rows the image column numbers, with "
        "all its options")  # fmt: skip
    add("--split", default=TEST_SPLIT, metavar="NAME", help="split of the dataset")
    add("--dataset-reference", default="reference", metavar="COLUMN", help="the dataset's "
        "column of references")  # fmt: skip


def add_metric(command: argparse.ArgumentParser, *, witness: bool = False) -> None:
    """Add the settings of POSH: its judge, its store and its settings file come first."""
    add = command.add_argument
    group = command.add_argument_group("metric (overrides --metric)")
    for each in fields(MetricSettings):
        if each.name == "witness" and not witness:
            continue
        add_flag = add if each.name in ("judge", "store") else group.add_argument
        kind = positive if each.name == "processes" else str
        add_flag(f"--{each.name}", type=kind, **each.metadata)
    add("--metric", metavar="FILE", help="published, a settings file (docs/cli.md), or the folder "
        "of the DAPO run that it trained")  # fmt: skip
    add_trust(group.add_argument)


def add_differences(add: AddFlag) -> None:
    add("--allow-differences", action="store_true", help="compare models although they were "
        "described or scored differently")  # fmt: skip


def check_alike(origins: Origins, *, allowed: bool) -> None:
    """Refuse to compare models of different settings; warn of what else a reader should know."""
    differences = list(origins.unlike())
    if differences and not allowed:
        raise InputError(
            f"the models were not described or scored alike ({'; '.join(differences)}): do so with "
            "the same settings, or add --allow-differences"
        )
    for line in (*differences, *origins.unchecked(), *origins.find_twins(), *origins.gaps()):
        print(f"warning: {line}", file=sys.stderr)


def check_shared_ids(ids: ItemIds, model: str, *, allowed: bool) -> None:
    """Refuse to compare models that have no ids in common; warn if some ids are not shared."""
    if (others := ids.apart_from(model)) and not allowed:
        raise InputError(
            f"{shorten_list(others)} and {shorten(model)} have no id in common, so their "
            "differences are unknown: give the same ids to `posh-reward score` (--id COLUMN), or "
            "add --allow-differences"
        )
    if why := ids.differences():
        print(f"warning: {why}", file=sys.stderr)


class TrustSettings(argparse.Action):
    """Let settings files do everything; an action, so that it holds wherever they are read."""

    def __call__(self, *_: object) -> None:
        trust_settings()


def add_trust(add: AddFlag) -> None:
    add("--trust-settings", action=TrustSettings, nargs=0, help="let settings files run programs "
        "and send keys (docs/cli.md)")  # fmt: skip


def add_reports(command: argparse.ArgumentParser, *, page: bool = True) -> None:
    """Add the files that a command writes besides what it prints."""
    if page:
        command.add_argument("--page", metavar="FILE", help="write an HTML page")
    add_json(command.add_argument)


def add_json(add: AddFlag) -> None:
    add("--json", metavar="FILE", help="write all figures as JSON; - prints them, and nothing "
        "else")  # fmt: skip


def show_figures(flags: argparse.Namespace, figures: object, table: str) -> None:
    """Print the table, or the figures for ``--json -``; write the figures to another file."""
    if flags.json != tables.STANDARD_STREAM:
        write_text(table)
    write_figures(flags, figures)


def write_figures(flags: argparse.Namespace, figures: object) -> None:
    """Print the figures for ``--json -``, or write them to the file that it names."""
    if flags.json is None:
        return
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    if flags.json == tables.STANDARD_STREAM:
        write_text(text)
    else:
        write_file(Path(flags.json), f"{text}\n".encode("utf-8", "replace"))


def load_posh(flags: argparse.Namespace) -> PoSh:
    return load_metric(flags.metric, **metric_flags(flags))


def load_dataset_images(flags: argparse.Namespace) -> DatasetImages | None:
    if not flags.dataset:
        if flags.split != TEST_SPLIT:
            raise InputError(f"--split {flags.split} is a split of --dataset: name that, too")
        return None
    from posh_reward.datasets.load_dataset import load_images
    from posh_reward.tables.dataset_images import DatasetImages

    return DatasetImages(
        load_images(flags.dataset, flags.split, flags.dataset_reference), flags.dataset
    )


TEXT_SUFFIXES = (".txt", ".md")


def read_text(argument: str) -> str:
    """Return a text from the command line: itself, or the contents of ``@file`` or ``@-``."""
    if not argument.startswith("@"):
        named = path_exists(argument) and Path(argument).is_file()
        if named or Path(argument).suffix in TEXT_SUFFIXES:
            raise InputError(f"{argument!r} is the name of a file: write @{argument} to read it")
        return argument
    if argument.startswith("@@"):
        return argument[1:]
    try:
        if argument[1:] == tables.STANDARD_STREAM:
            return tables.standard_input().read().decode("utf-8")
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {argument[1:]!r} ({error}); write @@ to begin a text with an at sign"
        ) from None


def write_text(text: str) -> None:
    """Write lines to standard output; characters outside its encoding become ``?``."""
    output = tables.standard_output()
    output.write(text.encode(sys.stdout.encoding or "utf-8", "replace") + b"\n")


PAGE_START = b"<!doctype html"
FIGURES_START = b"{\n"  # JSON with indents; a line of JSON lines begins otherwise


def check_replaceable(output: str | None, start: bytes = PAGE_START) -> None:
    """Raise ``InputError`` if an output would replace a file that does not begin like ours."""
    if output in (None, tables.STANDARD_STREAM) or not (path := Path(output)).is_file():
        return
    with path.open("rb") as file:
        begins = file.read(len(start)).lower()
    if begins not in (b"", start):
        kind = "an HTML page" if start == PAGE_START else "a JSON file of figures"
        raise InputError(f"{output!r} exists and is not {kind}: choose another file")


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file or nothing, in a folder that is made if missing, and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(data)
    print(f"wrote {str(path)!r} ({format_size(len(data))})", file=sys.stderr)


def format_size(count: int) -> str:
    """Format a number of bytes, such as ``"1.2 MB"``."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
