"""Flags of commands that score a table, whatever the metric."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from posh_reward.study.rows.tables import FORMATS

if TYPE_CHECKING:
    from posh_reward.study.rows.engine import TableSettings

INPUTS = "JSON lines, CSV, TSV or Parquet"


def add_files(command: argparse.ArgumentParser) -> None:
    """Adds the input, the output, and the input's format."""
    add = command.add_argument
    add("input", metavar="INPUT", help=f"{INPUTS}, by its ending (.gz too); - for standard input")
    add("-o", "--output", metavar="OUT", default="-", help=f"{INPUTS}, by its ending (.gz too); "
        "default: JSON lines to standard output")  # fmt: skip
    add_format(command)


def add_format(command: argparse.ArgumentParser) -> None:
    """Adds the input's format."""
    command.add_argument("--format", choices=tuple(FORMATS),
                         help="of the input; default: what its ending says")  # fmt: skip
    command.add_argument("--delimiter", metavar="CHARACTER", help="between the cells of an input "
                         "in CSV, such as ';'; default: a comma, or a tab for TSV")  # fmt: skip


def add_columns(
    command: argparse.ArgumentParser, *texts: str, image: str = "carried along"
) -> None:
    """Adds flags that name columns: those of texts, id, model, image.

    Args:
        command: gets the flags.
        texts: names of the texts, which their columns have by default.
        image: what is done with images.
    """
    add = command.add_argument
    for name in texts:
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    add("--id", metavar="COLUMN", help="default: rows are counted from 1")
    add("--model", metavar="COLUMN", help=f"who wrote the {texts[0]}; default: model, if there is "
        "such a column. With several models a leaderboard is printed")  # fmt: skip
    add("--image", metavar="COLUMN", help=f"the image's path or row, {image}; default: "
        "image, if there is such a column")  # fmt: skip


def add_running(command: argparse.ArgumentParser, rows: str, batch: int = 32) -> None:
    """Adds how a table is gone through; ``rows`` is what its rows are called."""
    add = command.add_argument
    add("--batch", type=positive, default=batch, metavar="N", help=f"{rows} that are scored and "
        f"written at a time; default: {batch}")  # fmt: skip
    add("--overwrite", action="store_true", help="start over: discard what OUT holds")
    add("-q", "--quiet", action="store_true", help="no progress bar and no summary")


def how_of(flags: argparse.Namespace, texts: Mapping[str, str | None]) -> TableSettings:
    """How the table is gone through; ``texts`` are the columns by their names in rows."""
    from posh_reward.study.rows.engine import TableSettings
    from posh_reward.study.rows.table_items import Columns

    columns = Columns(texts, flags.id, flags.model, flags.image)
    return TableSettings(
        columns, flags.format, flags.delimiter, flags.batch, flags.overwrite, flags.quiet
    )


def positive(text: str) -> int:
    """A flag's whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
