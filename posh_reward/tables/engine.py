"""Rows of a table -> items -> scored rows in a file, resuming an earlier run; for any metric."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from posh_reward.datasets.images import path_exists
from posh_reward.errors import InputError, JudgeError
from posh_reward.metrics.metric import SEVERAL_REFERENCES, read_reference
from posh_reward.metrics.records import (
    NEW_FIELDS,
    find_failure_reason,
    list_record_fields,
    read_metric_name,
    read_scores,
    write_row,
)
from posh_reward.process.progress import progress_bar
from posh_reward.provenance import ORIGIN_COLUMN, Origins, read_origin
from posh_reward.settings import shorten, shorten_list, suggest_name
from posh_reward.tables import tables
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.reading import open_rows
from posh_reward.tables.references import ReferenceFile
from posh_reward.tables.standings import POSH_COLUMNS, SCORED_TEXTS, MetricColumns, ScoreTotals
from posh_reward.types import Scores, is_missing

IMAGE_ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp")
"""Endings to try after a name in a folder of images."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of a table's columns."""

    # Name in our rows -> column; None: the table lacks it, and the text is missing.
    texts: Mapping[str, str | None] = field(
        default_factory=lambda: {name: name for name in SCORED_TEXTS}
    )
    id: str | None = None  # None: ``id``, if there is one; else count rows from 1
    model: str | None = None  # author of the generation; None: ``model``, if there is one
    # Path or dataset row of the image, for a metric that looks; None: ``image``, if there is one.
    image: str | None = None
    numbered: bool = False  # count rows from 1, whatever their columns

    def for_rows_like(self, row: tables.Row) -> Columns:
        """Columns with that of the ids: the one named, or else ``id`` if rows have it."""
        return replace(self, id=self._find_id_column(row))

    def _find_id_column(self, row: tables.Row) -> str | None:
        if self.numbered:
            return None
        if self.id:
            return self.id
        if "id" in row:
            return "id"
        return next((column for column in row if column.strip().lower() == "id"), None)  # also ID


@dataclass(frozen=True, slots=True)
class TableItem:
    """One row to score."""

    id: str | int
    # By name; ``reference`` may be a list of texts. Any other value has no score.
    texts: Mapping[str, Any]
    model: str | None = None
    image: str | int | None = None
    content: Any = None  # cell of the image, for a metric that looks at it; not in scored rows
    origin: str | None = None  # the weights and settings behind the generation, if known

    @property
    def head(self) -> tables.Row:
        """Columns that the scored row repeats; the optional ones only where present."""
        head: tables.Row = {"id": self.id}
        optional = {"model": self.model, "image": self.image, ORIGIN_COLUMN: self.origin}
        for key, value in optional.items():
            if value is not None:
                head[key] = value
        for key, text in self.texts.items():
            head[key] = _read_one_text(text, key)
        return head


def _read_one_text(value: object, name: str) -> str | None:
    if name not in SCORED_TEXTS and isinstance(value, str):  # as of a program, which may be a list
        return value
    text = read_reference(value)
    return text if isinstance(text, str) else None


def check_rows(
    rows: Iterable[tables.Row], name: str, columns: Columns, *, at_once: bool = True
) -> Iterator[tables.Row]:
    """Pass on the rows of a table whose columns, ids and models are usable.

    A column that the first row lacks is an error ``at_once``, or else if no later row has it.
    """
    ids, origins = ItemIds(), Origins()
    reference = columns.texts.get("reference")
    first: tables.Row = {}
    missing: dict[str, str | None] = {}  # by flag
    number = 0
    for number, row in enumerate(rows, start=1):
        if number == 1:
            first, columns = row, columns.for_rows_like(row)
            others = {"id": columns.id, "model": columns.model, "image": columns.image}
            missing = {**columns.texts, **others}
            check_column(row, name, "id", columns.id)  # or each row would lack its id
        missing = {flag: column for flag, column in missing.items() if column not in row}
        if at_once:
            check_columns(first, name, missing)
        try:
            model = _read_model(row, columns)
            origins.add({"model": model, ORIGIN_COLUMN: row.get(ORIGIN_COLUMN)})
            if columns.id is None and "id" in row and not columns.numbered:
                raise InputError(
                    "the first row has no id, and this one has: fill it in, or count rows with "
                    "--number-rows"
                )
            if columns.id is not None:
                text = None
                if reference:
                    text = row.get(reference)
                ids.add(_read_id(row.get(columns.id)), model, text, MAKE_IDS_UNIQUE)
        except InputError as error:
            raise InputError(f"{name}, row {number}: {error}") from None
        yield row
    if not number:
        raise InputError(f"{name} has no rows")
    check_columns(first, name, missing)


def check_columns(
    present: Mapping[str, object], name: str, columns: Mapping[str, str | None]
) -> None:
    """Raise ``InputError`` if one of ``columns``, by flag, is missing."""
    for flag, column in columns.items():
        check_column(present, name, flag, column)


def check_column(present: Mapping[str, object], name: str, flag: str, column: str | None) -> None:
    """Raise ``InputError`` if a column is missing; None requires no column."""
    if column is not None and column not in present:
        names, flag = shorten_list(present), flag.replace("_", "-")
        hint = suggest_name(column, present)
        remedy = f"name the right one with --{flag}"
        if len(present) == 1:
            remedy += ", or the --delimiter"
        raise InputError(f"{name} has no column {shorten(column)}{hint}, but {names}: {remedy}")


def read_items(
    rows: Iterable[tables.Row],
    columns: Columns,
    clean: Callable[[object], Any] | None = None,
) -> Iterator[TableItem]:
    """The items of a table; a missing cell makes an item that cannot be scored."""
    for number, row in enumerate(rows, start=1):
        if number == 1:
            columns = columns.for_rows_like(row)
        content = row.get(columns.image or "image")
        texts = {}
        for name, column in columns.texts.items():
            text = None if column is None else row.get(column)
            texts[name] = text if clean is None else clean(text)
        yield TableItem(
            number if columns.id is None else _read_id(row.get(columns.id)),
            texts,
            _read_model(row, columns),
            _read_image_place(content),
            content,
            str(row[ORIGIN_COLUMN]) if read_origin(row.get(ORIGIN_COLUMN)) else None,
        )


def _read_id(value: object) -> str | int:
    if is_missing(value) or value == "":
        raise InputError("the id is missing: fill it in, or count rows with --number-rows")
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"the id {shorten(value)} contains a NUL, which not every file can hold")
    if isinstance(value, str | int):
        return value
    if isinstance(value, list | dict):
        raise InputError("the id is not a text or a number")
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a data frame makes floats of whole numbers in a column with a gap
    return str(value)


def _read_model(row: tables.Row, columns: Columns) -> str | None:
    value = row.get(columns.model or "model")
    if isinstance(value, list | dict):
        raise InputError("the model is not a text: name the right column with --model")
    if is_missing(value):
        return None
    return str(value)


def _read_image_place(value: object) -> str | int | None:
    """Path or row of an image, without the pixels that datasets store beside it."""
    if isinstance(value, Mapping):
        value = value.get("path")
    if isinstance(value, str | int):
        return value
    return None


def resolve_images(items: Iterable[TableItem], folder: Path) -> Iterator[TableItem]:
    """The items, with the path of each image resolved: as it is, or else relative to ``folder``."""
    for item in items:
        path, has_bytes = item.content, False
        if isinstance(item.content, Mapping):
            path, has_bytes = item.content.get("path"), item.content.get("bytes") is not None
        if not has_bytes and isinstance(path, str) and path and not path_exists(path):
            item = replace(item, content=find_image(folder, path) or path)
        yield item


def find_image(folder: Path, name: str) -> str | None:
    """Path of an image in a folder, with or without its ending; None if missing."""
    for ending in IMAGE_ENDINGS:
        path = f"{folder / name}{ending}"
        if path_exists(path):
            return path
    return None


MAX_FAILED_BATCHES_IN_A_ROW = 3
"""After so many batches in which the judge failed on every row it counts as gone."""
MAKE_IDS_UNIQUE = "make ids unique, or count rows with --number-rows"
RESTART_REMEDY = "choose another output, or start over with --overwrite"


class RowScorer(ABC):
    """A metric over the rows of a table, and how its scores become rows."""

    record = ""  # metric whose scores the rows have, one of ``metrics.records.RECORD_CLASSES``
    unit = "text"  # noun for a row
    metric_columns: MetricColumns  # for ``score_work``: the columns of a summary
    optional: Mapping[str, bool] = {}  # column written only with the flag of that name -> flag set

    def __init__(self, signature: Callable[[], str], wants_images: bool, *columns: str) -> None:
        self._signature = signature
        self.wants_images = wants_images
        self._columns = columns

    @cached_property
    def signature(self) -> str:
        """Everything another run needs to get the same rows; the metric's name comes first."""
        return self._signature()

    @abstractmethod
    def rows(self, items: Sequence[TableItem]) -> list[tables.Row]:
        """One result row per item, in order: its ``head``, scores, failure, signature."""

    def row(self, item: TableItem, scores: Any, **columns: object) -> tables.Row:
        """The row of one item: its ``head``, the fields of its scores, ``columns``, lists last."""
        fields = {**write_row(self.record, scores), **columns}
        lists_last = sorted(
            fields, key=lambda name: (isinstance(fields[name], list), name == "signature")
        )
        row = dict(self.head(item))
        for name in lists_last:
            row.setdefault(name, fields[name])
        return row

    def head(self, item: TableItem) -> tables.Row:
        return item.head

    def has_question(self, row: tables.Row) -> bool:
        """Return True if the judge was asked about this row: its text and image were usable."""
        return row["failure"] is None or bool(row["failure"]["kind"] != "text")

    def check(self, row: tables.Row) -> None:
        """Raise ``InputError`` if this is not a row of the metric."""
        own: Iterable[str] = ("failure", "signature")
        if self.record:
            own = list_record_fields(self.record)
        spared = (*self.optional, *NEW_FIELDS.get(self.record, ()))
        needed = [name for name in (*own, *self._columns) if name not in spared]
        if missing := [name for name in needed if name not in row]:
            raise InputError(f"it lacks {', '.join(missing)}")
        if self.record:
            read_scores(self.record, row)

    def reread(self, row: tables.Row) -> tables.Row:
        """Return a row of a finished CSV or Parquet file as it was before it was written."""
        if not self.record or read_metric_name(row) != self.record:
            raise InputError("its rows cannot be read back")
        read = tables.parse_cells(self.record, row)
        for name in self._columns:  # numbers beside the record's
            cell = read.get(name)
            if cell == "":
                read[name] = None
            elif isinstance(cell, str):
                read[name] = tables.parse_number(cell)
        return read


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Columns, format and batches of one pass over a table."""

    columns: Columns = field(default_factory=Columns)
    _: KW_ONLY
    references: ReferenceFile | None = None  # joined on the id
    # Reads a text otherwise than as it is given; the rows then have what it returns.
    clean: Callable[[object], Any] | None = None
    format: str | None = None  # of the input, one of ``FORMATS``; None: by what is in it
    delimiter: str | None = None  # of CSV; None: the input's header shows it
    batch: int = 32  # rows scored and written at a time
    overwrite: bool = False  # discard the output's rows instead of resuming after them
    quiet: bool = False
    images: Path | None = None  # folder of relative image paths and names; None: the table's


def score_rows(
    scorer: RowScorer,
    source: str,
    output: str,
    settings: TableSettings,
    count: Callable[[tables.Row], None],
) -> None:
    """Score every row of a table into a file; a killed run resumes where it stopped."""
    format = tables.find_format(output, settings.delimiter)  # semicolons in, semicolons out
    tables.check_apart(source, output)
    with (
        open_items(source, settings, images=scorer.wants_images) as (items, total),
        tables.open_sink(output, format, settings.overwrite, scorer.reread) as out,
    ):
        add_missing_rows(out, scorer, items, output, settings, count, total)


@contextmanager
def open_items(
    source: str, settings: TableSettings, *, images: bool = False
) -> Iterator[tuple[Iterator[TableItem], int | None]]:
    """Open a table: its items, and their number (None for standard input, read only once)."""
    columns = settings.columns
    if images:  # without, a missing column of images is no error
        columns = replace(columns, image=columns.image or "image")
    total = None
    name = tables.display_name(source)
    if source != tables.STANDARD_STREAM:
        # Read the file twice: report a fault in its last row before spending hours on the others.
        with _joined_rows(source, settings) as rows:
            total = sum(1 for _ in check_rows(rows, name, columns, at_once=False))
    with _joined_rows(source, settings) as rows:
        if total is None:
            rows = check_rows(rows, name, columns)
        folder = settings.images or Path(source).parent
        yield resolve_images(read_items(rows, columns, settings.clean), folder), total


@contextmanager
def _joined_rows(source: str, settings: TableSettings) -> Iterator[Iterator[tables.Row]]:
    """Open a table's rows, with their references if these are in a file of their own."""
    first_text = next(iter(settings.columns.texts.values())) or "generation"
    with open_rows(source, settings.format, settings.delimiter, first_text) as rows:
        if settings.references is None:
            yield rows
        else:
            yield settings.references.join(rows, tables.display_name(source))


def add_missing_rows(
    out: tables.Journal | tables.Stream,
    scorer: RowScorer,
    items: Iterator[TableItem],
    name: str,
    settings: TableSettings,
    count: Callable[[tables.Row], None],
    total: int | None = None,
) -> None:
    """Add to ``out``, called ``name``, the rows it lacks; call ``count`` with every row."""
    done = 0
    for row in check_earlier(out.rows(), items, name, scorer):
        count(row)
        done += 1
    out.append([])  # drops what a kill cut short, even if no row is missing
    metric = scorer.signature.partition("|")[0]
    with progress_bar(metric, total, scorer.unit, settings.quiet, initial=done) as bar:
        if done and not settings.quiet:
            text = f"{done:,} of {total or '?'} {scorer.unit}s were scored before"
            bar.write(text, file=sys.stderr)
        for batch in score_batches(scorer, items, settings.batch):
            out.append(batch)
            for row in batch:
                count(row)
            done += len(batch)
            bar.update(len(batch))
    if total is not None and done < total:
        raise InputError(
            f"the input had {total:,} rows and now has {done:,}: run the same command again"
        )


def check_earlier(
    rows: Iterable[tables.Row], items: Iterator[TableItem], name: str, scorer: RowScorer
) -> Iterator[tables.Row]:
    """Pass on the rows of an earlier run, checking each against the item of its place."""
    for place, row in enumerate(rows, start=1):
        try:
            scorer.check(row)
        except InputError as error:
            raise InputError(
                f"row {place} of {name!r} is not a row of scores ({error}): choose another output"
            ) from None
        earlier = row["signature"]
        if earlier.replace(SEVERAL_REFERENCES, "") != scorer.signature:
            raise InputError(
                f"{name!r} was scored as {earlier}, not as {scorer.signature}: {RESTART_REMEDY}"
            )
        for flag, is_on in scorer.optional.items():
            if (flag in row) != is_on:
                how = "without" if is_on else "with"
                raise InputError(f"{name!r} was written {how} --{flag}: {RESTART_REMEDY}")
        item = next(items, None)
        if item is None or not _row_matches(row, item):
            raise InputError(
                f"row {place} of {name!r} does not match row {place} of the input, which must "
                f"have changed: {RESTART_REMEDY}"
            )
        yield row


def _row_matches(row: tables.Row, item: TableItem) -> bool:
    head = {"model": None, "image": None, **item.head}
    return all(_as_cell(row.get(key)) == _as_cell(value) for key, value in head.items())


def _as_cell(value: object) -> str:
    """The value as in CSV, where numbers are texts and None is empty."""
    return "" if value is None else str(value)


def score_batches(
    scorer: RowScorer, items: Iterator[TableItem], batch: int
) -> Iterator[list[tables.Row]]:
    # Hold back a batch in which the judge failed on every row until it works again: once written,
    # its rows would count as done and no later run would retry them. Rows without a question for
    # the judge (an empty text) tell nothing about the judge, so they are ignored here.
    waiting: list[list[tables.Row]] = []
    reasons: list[str | None] = []
    failures = 0
    works = False  # True if the judge has answered about any row
    while chunk := list(islice(items, batch)):
        rows = scorer.rows(chunk)
        waiting.append(rows)
        reasons = [find_failure_reason(row) for row in rows if scorer.has_question(row)]
        if None in reasons:
            failures, works = 0, True
        elif reasons:
            failures += 1
        if failures == MAX_FAILED_BATCHES_IN_A_ROW:
            raise JudgeError(
                f"it failed on every {scorer.unit} of {failures} consecutive batches "
                f"({reasons[0]}); their rows are not kept. If the {scorer.unit}s are at fault, "
                "get past them with a larger --batch"
            )
        if not failures:
            yield from waiting
            waiting.clear()
    if failures and not works and all(map(_may_be_retried, chain.from_iterable(waiting))):
        raise JudgeError(
            f"it failed on every {scorer.unit} ({reasons[0]}); their rows are not kept: run the "
            "same command again once it works"
        )
    yield from waiting


def _may_be_retried(row: tables.Row) -> bool:
    """Return True if a row failed, for a reason that may pass: the judge's, not the text's."""
    return row["failure"] is not None and row["failure"]["kind"] in ("engine", "error")


class Metric(Protocol):
    """A metric of pairs, such as ``PoSh``."""

    @property
    def signature(self) -> str:
        """Everything another run needs to reproduce the scores; the metric's name comes first."""

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None], /
    ) -> list[Scores]:
        """One record per pair, in order; with ``wants_images``, images are passed third."""


def wants_images(metric: object) -> bool:
    return bool(getattr(metric, "wants_images", False))


CLEANED_SUFFIX = "|texts:cleaned"
"""Part of the signature of a row whose texts were read without markup, as a reward reads them."""


class PoshRows(RowScorer):
    """Score pairs with POSH.

    ``elements`` adds each element's grade and spans to the rows; ``cleaned``, to their signatures,
    that the texts were read as a reward reads them.
    """

    record = "posh"
    unit = "pair"
    metric_columns: MetricColumns = POSH_COLUMNS

    def __init__(
        self,
        metric: Metric,
        *,
        elements: bool = False,
        cleaned: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._reading = reading = CLEANED_SUFFIX if cleaned else ""
        # Not of ``self``: in a circle of references, a store would stay open until it is collected.
        super().__init__(lambda: metric.signature + reading, wants_images(metric))
        self.metric = metric
        self.check_metric = check
        self.optional = {"elements": elements}

    def rows(self, items: Sequence[TableItem]) -> list[tables.Row]:
        if self.check_metric is not None:
            self.check_metric()
            self.check_metric = None
        columns = [list_texts(items, "generation"), list_texts(items, "reference")]
        if self.wants_images:
            columns.append([item.content for item in items])
        rows = list(map(self.row, items, self.metric.score(*columns)))
        for row in rows:
            row["signature"] += self._reading
            if not self.optional["elements"]:
                del row["elements"]
        return rows

    def has_question(self, row: tables.Row) -> bool:
        """Return True if the pair has elements, without which a judge is asked nothing.

        A pair whose sentences could not be read has a question, too, but no elements.
        """
        if row["failure"] is not None and row["failure"]["kind"] != "text":
            return True
        return bool(row["generation_elements"] + row["reference_elements"])


def score_table(
    metric: Metric,
    source: str,
    output: str,
    how: TableSettings,
    *,
    elements: bool = False,
    check: Callable[[], None] | None = None,
) -> ScoreTotals:
    """Score every pair of a table into a file, as ``score_rows``; return totals over its rows.

    ``check`` is called once the table is known to be readable; it raises if the metric is unfit.
    """
    cleaned = how.clean is not None
    work = PoshRows(metric, elements=elements, cleaned=cleaned, check=check)
    return score_work(work, source, output, how)


def score_work(work: RowScorer, source: str, output: str, how: TableSettings) -> ScoreTotals:
    """Score a table into a file, as ``score_rows``; return totals over the output's rows."""
    totals = ScoreTotals(work.metric_columns)
    score_rows(work, source, output, how, totals.add)
    return totals


def list_texts(items: Sequence[TableItem], name: str) -> list[Any]:
    return [item.texts[name] for item in items]
