"""Flags that several commands share, and the objects that they describe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import EXITS
from posh_reward.errors import InputError
from posh_reward.metrics.load_metric import MetricSettings
from posh_reward.study.rows.tables import FORMATS, STANDARD, standard_input, standard_output

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.rows.dataset_images import DatasetImages
    from posh_reward.study.rows.engine import TableSettings


def describe(parser: argparse.ArgumentParser, text: str) -> argparse.ArgumentParser:
    """Give a parser its description, as it is, and the exit statuses below its flags."""
    parser.description, parser.epilog = text, EXITS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


INPUTS = "JSON lines, CSV, TSV or Parquet"


def add_files(command: argparse.ArgumentParser) -> None:
    """Add the input, the output, and the input's format."""
    add = command.add_argument
    add("input", metavar="INPUT", help=f"{INPUTS}, by its ending (.gz too); - for standard input")
    add("-o", "--output", metavar="OUT", default="-", help=f"{INPUTS}, by its ending (.gz too); "
        "default: JSON lines to standard output")  # fmt: skip
    add_format(command)


def add_format(command: argparse.ArgumentParser) -> None:
    """Add the input's format."""
    command.add_argument("--format", choices=tuple(FORMATS),
                         help="of the input; default: what its ending says")  # fmt: skip
    command.add_argument("--delimiter", metavar="CHARACTER", help="between the cells of an input "
                         "in CSV, such as ';'; default: a comma, or a tab for TSV")  # fmt: skip


def add_columns(
    command: argparse.ArgumentParser, *texts: str, image: str = "carried along"
) -> None:
    """Add flags that name columns: those of texts (by default their names), id, model, image."""
    add = command.add_argument
    for name in texts:
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    add("--id", metavar="COLUMN", help="default: rows are counted from 1")
    add("--model", metavar="COLUMN", help=f"who wrote the {texts[0]}; default: model, if there is "
        "such a column. With several models a leaderboard is printed")  # fmt: skip
    add("--image", metavar="COLUMN", help=f"the image's path or row, {image}; default: "
        "image, if there is such a column")  # fmt: skip
    add("--images", metavar="FOLDER", type=Path, help="that paths and names of images are relative "
        "to; default: the folder of the table")  # fmt: skip


def add_running(command: argparse.ArgumentParser, rows: str, batch: int = 32) -> None:
    """Add how a table is gone through; ``rows`` is what its rows are called."""
    add = command.add_argument
    add("--batch", type=positive, default=batch, metavar="N", help=f"{rows} that are scored and "
        f"written at a time; default: {batch}")  # fmt: skip
    add("--overwrite", action="store_true", help="start over: discard what OUT holds")
    add("-q", "--quiet", action="store_true", help="no progress bar and no summary")


def table_settings(flags: argparse.Namespace, texts: Mapping[str, str | None]) -> TableSettings:
    """Return how the table is read; ``texts`` are its columns by their names in rows."""
    from posh_reward.study.rows.engine import TableSettings
    from posh_reward.study.rows.table_items import Columns

    columns = Columns(texts, flags.id, flags.model, flags.image)
    return TableSettings(
        columns, flags.format, flags.delimiter, flags.batch, flags.overwrite, flags.quiet,
        flags.images,
    )  # fmt: skip


def positive(text: str) -> int:
    """A flag's whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def add_dataset(command: argparse.ArgumentParser) -> None:
    """Add the dataset whose rows ``image`` numbers."""
    add = command.add_argument
    add("--dataset", metavar="NAME", help="whose rows image numbers, as recipes/generate.py writes "
        "it: the one that was described, with all its options")  # fmt: skip
    add("--split", default="test", help="of the dataset; default: test")


def add_metric(command: argparse.ArgumentParser, *, witness: bool = False) -> None:
    """Add the settings of POSH."""
    group = command.add_argument_group("metric", "a flag wins over the configuration file")
    group.add_argument(
        "--config",
        metavar="FILE",
        help="published, which is POSH as it was published; or YAML or JSON: judge, parser, coref, "
        "preset, witness, supported, store, weights, max_characters, pairs_at_once",
    )
    for each in fields(MetricSettings):
        if witness or each.name != "witness":
            group.add_argument(f"--{each.name}", **each.metadata)


def metric_of(flags: argparse.Namespace) -> PoSh:
    """Return the metric that the flags and their configuration file describe."""
    from posh_reward.metrics.load_metric import load_metric, metric_flags

    return load_metric(flags.config, **metric_flags(flags))


def dataset_of(flags: argparse.Namespace) -> DatasetImages | None:
    """The dataset whose rows ``image`` numbers, if the flags name one.

    Raises:
        MissingDependencyError: ``datasets`` is not installed.
    """
    if not flags.dataset:
        return None
    from posh_reward.datasets.load_dataset import load_images
    from posh_reward.study.rows.dataset_images import DatasetImages

    return DatasetImages(load_images(flags.dataset, flags.split), flags.dataset)


def read_text(argument: str) -> str:
    """A text from the command line: itself, or the contents of ``@file``, or of ``@-``.

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
            f"cannot read {argument[1:]!r} ({error}); a text that begins with @ is written @@"
        ) from None


def write_text(text: str) -> None:
    """Write lines to standard output; characters that it cannot express become ``?``.

    Raises:
        OSError: it is closed, or cannot be written.
    """
    output = standard_output()
    output.write(text.encode(sys.stdout.encoding or "utf-8", "replace") + b"\n")


def size(count: int) -> str:
    """Bytes in words, such as ``"1.2 MB"``."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
