"""Flags that several commands share, and the objects made from them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from posh_reward.cli import EXITS, HelpFormatter
from posh_reward.errors import InputError
from posh_reward.metrics.load_metric import MetricSettings, load_metric, metric_flags
from posh_reward.settings import trust_settings
from posh_reward.study.rows.scored_rows import EXPLANATION
from posh_reward.study.rows.tables import FORMATS, STANDARD, standard_input, standard_output

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.rows.dataset_images import DatasetImages
    from posh_reward.study.rows.engine import TableSettings


INPUTS = "JSON lines, CSV, TSV (optionally .gz) or Parquet, by file ending"
MEANING = fill(EXPLANATION + ".", 100)


def describe(
    parser: argparse.ArgumentParser, text: str, example: str = ""
) -> argparse.ArgumentParser:
    """Set a parser's description; below its flags show an example and the exit statuses."""
    parser.description = text
    parser.epilog = f"example:\n  posh-reward {example}\n\n{EXITS}" if example else EXITS
    parser.formatter_class = HelpFormatter
    return parser


def add_files(command: argparse.ArgumentParser) -> None:
    """Add the input, the output, and the input's format."""
    add = command.add_argument
    add("input", metavar="INPUT", help=f"table to read: {INPUTS}; - for standard input")
    add("-o", "--output", metavar="OUT", default="-", help="table to write, in any of these "
        "formats (default: JSON lines to standard output)")  # fmt: skip
    add_format(command)


def add_format(command: argparse.ArgumentParser) -> None:
    """Add the input's format."""
    add = command.add_argument
    add("--format", choices=tuple(FORMATS), help="format of the input (default: by file ending)")
    add_delimiter(command)


def add_delimiter(command: argparse.ArgumentParser) -> None:
    """Add the delimiter of CSV files."""
    command.add_argument("--delimiter", metavar="CHARACTER", help="cell separator of CSV input, "
                         "such as ';' (default: comma, or tab for TSV)")  # fmt: skip


def add_column_names(command: argparse.ArgumentParser, *names: str) -> None:
    """Add a flag for each column's name, which is by default the flag's own."""
    for name in names:
        command.add_argument(f"--{name}", metavar="COLUMN", default=name, help=f"{name} column")


def add_columns(
    command: argparse.ArgumentParser, *texts: str, image: str = "copied to the output"
) -> None:
    """Add the names of columns: texts, id, model, image."""
    add = command.add_argument
    add_column_names(command, *texts)
    add("--id", metavar="COLUMN", help="id column (default: rows are numbered from 1)")
    add("--model", metavar="COLUMN", help=f"column with the model that wrote the {texts[0]} "
        "(default: model, if present); several models get a leaderboard")  # fmt: skip
    add("--image", metavar="COLUMN", help=f"column of image paths or row numbers, {image} "
        "(default: image, if present)")  # fmt: skip
    add("--images", metavar="DIR", type=Path, help="folder that image paths and names are "
        "relative to (default: the table's)")  # fmt: skip


def add_running(command: argparse.ArgumentParser, rows: str, batch: int = 32) -> None:
    """Add the batch size, ``--overwrite`` and ``--quiet``; ``rows`` names what is scored."""
    add = command.add_argument
    add("--batch", type=positive, default=batch, help=f"{rows} to score and write at a time")
    add("--overwrite", action="store_true", help="discard the rows in OUT and start over")
    add("-q", "--quiet", action="store_true", help="print no progress bar and no summary")


def table_settings(flags: argparse.Namespace, texts: Mapping[str, str | None]) -> TableSettings:
    """Return how the table is read; ``texts`` maps names in rows to columns."""
    from posh_reward.study.rows.engine import TableSettings
    from posh_reward.study.rows.table_items import Columns

    columns = Columns(texts, flags.id, flags.model, flags.image)
    return TableSettings(
        columns, flags.format, flags.delimiter, flags.batch, flags.overwrite, flags.quiet,
        flags.images,
    )  # fmt: skip


def count(text: str, least: int = 0) -> int:
    """Parse a whole number from 0."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    return int(text)


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    return count(text, 1)


def add_dataset(command: argparse.ArgumentParser) -> None:
    """Add the dataset whose rows the column ``image`` numbers."""
    add = command.add_argument
    add("--dataset", metavar="NAME", help="dataset whose rows the image column numbers, with all "
        "its options, as given to recipes/generate.py")  # fmt: skip
    add("--split", default="test", metavar="NAME", help="split of the dataset")


def add_metric(command: argparse.ArgumentParser, *, witness: bool = False) -> None:
    """Add the settings of POSH."""
    group = command.add_argument_group("metric", "these flags override the configuration file")
    group.add_argument("--config", metavar="FILE", help="YAML or JSON file with judge, parser, "
                       "coref, preset, witness, supported, store, weights, max_characters or "
                       "pairs_at_once; or published, for the published metric")  # fmt: skip
    for each in fields(MetricSettings):
        if witness or each.name != "witness":
            group.add_argument(f"--{each.name}", **each.metadata)
    add_trust(command)


class TrustSettings(argparse.Action):
    """Let settings files do everything; an action, so that it holds wherever they are read."""

    def __call__(self, *_: object) -> None:
        """Trust them in this process and its children."""
        trust_settings()


def add_trust(command: argparse.ArgumentParser) -> None:
    """Add ``--trust-settings``."""
    command.add_argument("--trust-settings", action=TrustSettings, nargs=0, help="let settings "
                         "files run programs and send keys (docs/cli.md)")  # fmt: skip


def metric_of(flags: argparse.Namespace) -> PoSh:
    """Return the metric that the flags and their configuration file describe."""
    return load_metric(flags.config, **metric_flags(flags))


def dataset_of(flags: argparse.Namespace) -> DatasetImages | None:
    """Return the images of ``--dataset``, or None without it.

    Raises:
        MissingDependencyError: ``datasets`` is not installed.
    """
    if not flags.dataset:
        return None
    from posh_reward.datasets.load_dataset import load_images
    from posh_reward.study.rows.dataset_images import DatasetImages

    return DatasetImages(load_images(flags.dataset, flags.split), flags.dataset)


def read_text(argument: str) -> str:
    """Return a text from the command line: itself, or the contents of ``@file`` or ``@-``.

    Raises:
        InputError: the file cannot be read as UTF-8.
    """
    if not argument.startswith("@") or argument.startswith("@@"):
        return argument.removeprefix("@")
    try:
        if argument[1:] == STANDARD:
            return standard_input().read().decode("utf-8")
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {argument[1:]!r} ({error}); write @@ to begin a text with an at sign"
        ) from None


def write_text(text: str) -> None:
    """Write lines to standard output; characters outside its encoding become ``?``.

    Raises:
        OSError: it is closed, or cannot be written.
    """
    output = standard_output()
    output.write(text.encode(sys.stdout.encoding or "utf-8", "replace") + b"\n")


PAGE = b"<!doctype html"
FIGURES = b"{\n"  # JSON with indents; a line of JSON lines begins otherwise


def check_replaceable(output: str | None, start: bytes = PAGE) -> None:
    """Raise ``InputError`` if an output would replace a file that does not begin like ours."""
    if output in (None, STANDARD) or not (path := Path(output)).is_file():
        return
    with path.open("rb") as file:
        begins = file.read(len(start)).lower()
    if begins not in (b"", start):
        kind = "an HTML page" if start == PAGE else "a JSON file of figures"
        raise InputError(f"{output!r} exists and is not {kind}: choose another file")


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file or nothing, in a folder that is made if missing, and print its path."""
    from posh_reward.study.rows.tables import whole_file

    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(data)
    print(f"wrote {str(path)!r} ({size(len(data))})", file=sys.stderr)


def size(count: int) -> str:
    """Format a number of bytes, such as ``"1.2 MB"``."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
