"""Names of files -> their formats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from posh_reward.errors import InputError, MissingDependencyError

STANDARD = "-"
"""The name of standard input or output."""
GZIP = ".gz"
TAB = "\t"


@dataclass(frozen=True, slots=True)
class Format:
    """How rows are written down."""

    kind: Literal["jsonl", "csv", "parquet"]
    delimiter: str = ","
    """Between the cells of CSV."""
    gzipped: bool = False

    @property
    def appendable(self) -> bool:
        """Whether rows can be added to a file of this format without touching the others."""
        return self.kind == "jsonl" and not self.gzipped


FORMATS = {
    "jsonl": Format("jsonl"),
    "csv": Format("csv"),
    "tsv": Format("csv", TAB),
    "parquet": Format("parquet"),
}
ENDINGS = {**{f".{name}": name for name in FORMATS}, ".ndjson": "jsonl"}


def format_of(name: str, named: str | None = None, delimiter: str | None = None) -> Format:
    """The format of a file by its ending, or by its name in ``FORMATS`` if that is given.

    Args:
        name: of the file; standard input and output are JSON lines by default.
        named: one of ``FORMATS``, which wins over the ending.
        delimiter: of a CSV file, if not a comma (or a tab, for ``tsv``).

    Raises:
        InputError: the ending is not one that we know, or the delimiter does not fit.
        MissingDependencyError: the format needs a package that is not installed.
    """
    path = Path(name)
    gzipped = path.suffix.lower() == GZIP
    ending = (path.with_suffix("") if gzipped else path).suffix.lower()
    chosen = named or ("jsonl" if name == STANDARD else ENDINGS.get(ending))
    if chosen is None:
        raise InputError(
            f"{path.name!r} does not end in {', '.join(ENDINGS)} (the text formats also with "
            f"{GZIP}): rename it, or name the format of an input with --format"
        )
    format = FORMATS[chosen]
    if format.kind == "parquet":
        if gzipped:
            raise InputError(f"{path.name!r}: Parquet is compressed in itself; leave out {GZIP}")
        require_parquet()
    if delimiter is None:
        return replace(format, gzipped=gzipped)
    if format.kind != "csv":
        raise InputError(f"{name!r} is {chosen}, which has no delimiter")
    return replace(format, gzipped=gzipped, delimiter=_checked(delimiter))


def _checked(delimiter: str) -> str:
    delimiter = TAB if delimiter == r"\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise InputError(
            f"the delimiter {delimiter!r} is not one character, such as ';' or '\\t' for a tab"
        )
    return delimiter


def require_parquet() -> None:
    """Makes sure that Parquet can be read and written here.

    Raises:
        MissingDependencyError: its package is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingDependencyError("Parquet needs pyarrow: pip install pyarrow") from None
