"""PROVE over files: captions -> verified questions, responses -> scores. Both resume.

What is done is kept row by row; the same command goes on after it, and refuses an output that was
made from other rows or by another signature.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.study.rows.files import check_apart, open_table, shown
from posh_reward.study.rows.formats import STANDARD, format_of
from posh_reward.study.rows.journal import Journal, Row
from posh_reward.study.rows.pairs import check_column
from posh_reward.study.rows.plain import on_one_line
from posh_reward.study.rows.writing import write_table
from posh_reward.types import Failure

if TYPE_CHECKING:
    from posh_reward.metrics.prove.metric import Prove
    from posh_reward.metrics.prove.pipeline import PairMaker
    from posh_reward.metrics.prove.records import ProveScores
    from posh_reward.metrics.prove.sifting import Made

SCORED = ("response", "answer", "question", "caption")
"""Columns of what is scored."""
REMEDY = "write elsewhere, or start over with --overwrite"

Work = Callable[[Sequence[Row]], list[Row]]
"""What is to be done with a batch of the input: one row for each."""


@dataclass(frozen=True, slots=True)
class How:
    """How a table is gone through."""

    id: str | None = None
    """The column that tells rows apart; None: they are counted from 1."""
    image: str | None = None
    """The column with pictures: paths, from here or from the input's folder, or their bytes."""
    model: str | None = None
    """The column that says who wrote the response; it is carried along."""
    batch: int = 16
    """Rows that are worked on, and written, at a time."""
    overwrite: bool = False
    """Discard what the output holds, instead of going on after it."""
    quiet: bool = False


def make_pairs(
    maker: PairMaker, source: str, output: str, how: How, caption: str = "caption"
) -> list[Row]:
    """Makes verified questions for a table of captions.

    Args:
        maker: makes them.
        source: a table with captions.
        output: a table of the kept pairs, written at the end. Next to it, ``OUTPUT.made.jsonl``
            has for each caption all candidates, those dropped with their reasons.
        how: columns, size of batches.
        caption: what the column of captions is called.

    Returns:
        The rows of ``OUTPUT.made.jsonl``.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the writer cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    format = format_of(output)
    if output == STANDARD:
        raise InputError("the pairs need a file, next to which all candidates are kept")
    check_apart(source, output)
    candidates = Path(f"{output}.made.jsonl")
    if Path(output).exists() and not candidates.exists() and not how.overwrite:
        raise InputError(f"{output!r} is already there: {REMEDY}")
    rows = list(_heads(source, {"caption": caption}, how))

    def work(batch: Sequence[Row]) -> list[Row]:
        images = None if maker.entailment is None else _pictures(batch, source)
        made = maker.make([row["caption"] for row in batch], images)
        return [
            _made_row(row, each, maker.signature) for row, each in zip(batch, made, strict=True)
        ]

    with closing(Journal(candidates)) as journal:
        done = _go_on(journal, rows, work, maker.signature, how)
    write_table([pair for row in done for pair in kept_rows(row)], Path(output), format)
    return done


def _made_row(head: Row, made: Made, signature: str) -> Row:
    return {
        **_plain(head),
        **_failed(made.failure),
        "pairs": [asdict(pair) for pair in made.pairs],
        "signature": signature,
    }


def kept_rows(row: Row) -> Iterator[Row]:
    """The kept pairs of one caption, as rows that a model under test is asked by."""
    head: Row = {key: row[key] for key in ("caption", "image") if key in row}
    kept = [pair for pair in row["pairs"] if pair["dropped"] is None]
    for number, pair in enumerate(kept, start=1):
        asked: Row = {key: pair[key] for key in ("question", "answer", "program")}
        yield {"id": f"{row['id']}/{number}", **head, **asked}


def score_responses(
    prove: Prove, source: str, output: str, how: How, columns: Mapping[str, str] | None = None
) -> list[Row]:
    """Scores a table of responses.

    Args:
        prove: what scores.
        source: a table with responses, answers, questions and captions.
        output: JSON lines, one row for each response.
        how: columns, size of batches.
        columns: what the four columns are called, where they are not called so.

    Returns:
        The rows of the output.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    if not format_of(output).appendable or output == STANDARD:
        raise InputError(f"{output!r}: scores are written as JSON lines, to a .jsonl file")
    check_apart(source, output)
    rows = list(_heads(source, dict(zip(SCORED, SCORED, strict=True)) | dict(columns or {}), how))

    def work(batch: Sequence[Row]) -> list[Row]:
        images = None if prove.entailment is None else _pictures(batch, source)
        responses, answers, questions, captions = ([row[name] for row in batch] for name in SCORED)
        scores = prove.score(responses, answers, questions, captions, images)
        return [_scored_row(row, each) for row, each in zip(batch, scores, strict=True)]

    with closing(Journal(Path(output))) as journal:
        return _go_on(journal, rows, work, prove.signature, how)


def _scored_row(head: Row, scores: ProveScores) -> Row:
    return {
        **_plain(head),
        "helpfulness": scores.helpfulness,
        "truthfulness": scores.truthfulness,
        "average": scores.average,
        **_failed(scores.failure),
        "wanted": [_without_failure(asdict(each)) for each in scores.wanted],
        "claims": [_without_failure(asdict(each)) for each in scores.claims],
        "signature": scores.signature,
    }


def _without_failure(element: Row) -> Row:
    failure = element.pop("failure", None)
    return element if failure is None else {**element, "failure": failure["detail"]}


def _failed(failure: Failure | None) -> Row:
    return {
        "failure_kind": None if failure is None else failure.kind,
        "failure": None if failure is None else failure.detail,
    }


def _heads(source: str, columns: Mapping[str, str], how: How) -> Iterator[Row]:
    """Id, texts and picture of each row of the input.

    Raises:
        InputError: it has no rows, or lacks a column.
    """
    carried = {"model": how.model, "image": how.image}
    number = 0
    with open_table(source, format_of(source)) as rows:
        for number, row in enumerate(rows, start=1):
            for flag, column in {**columns, **carried, "id": how.id}.items() if number == 1 else ():
                check_column(row, shown(source), flag, column)
            yield {
                "id": number if how.id is None else row.get(how.id),
                **{name: row.get(column) for name, column in carried.items() if column},
                **{name: _text(row.get(column)) for name, column in columns.items()},
            }
    if not number:
        raise InputError(f"{shown(source)} has no rows")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _plain(head: Row) -> Row:
    """A row of the input as it is written: a picture by its path, if it has one."""
    image = head.get("image")
    path = image.get("path") if isinstance(image, Mapping) else image
    return {**head, "image": path if isinstance(path, str) else None} if "image" in head else head


def _pictures(batch: Sequence[Row], source: str) -> list[object]:
    folder = Path.cwd() if source == STANDARD else Path(source).parent
    return [_found(row.get("image"), folder) for row in batch]


def _found(image: object, folder: Path) -> object:
    """A path as it is, if it leads somewhere, otherwise as seen from the input's folder."""
    if not isinstance(image, str) or Path(image).exists():
        return image
    return str(folder / image)


def _go_on(
    journal: Journal, rows: Sequence[Row], work: Work, signature: str, how: How
) -> list[Row]:
    """Does what the journal does not hold yet; all its rows then."""
    from tqdm import tqdm

    if how.overwrite:
        journal.clear()
    done = list(journal.rows())
    _check_done(done, rows, journal.path, signature)
    with tqdm(
        desc="prove", unit="row", total=len(rows), initial=len(done), disable=how.quiet
    ) as bar:
        for start in range(len(done), len(rows), how.batch):
            new = work(rows[start : start + how.batch])
            if all(row["failure_kind"] == "engine" for row in new):
                raise JudgeError(
                    f"it failed at every row of a batch ({new[0]['failure']}), which is not kept; "
                    "if the rows are at fault, a greater --batch gets past them"
                )
            journal.append(new)
            bar.update(len(new))
    return list(journal.rows())


def _check_done(done: Sequence[Row], rows: Sequence[Row], path: Path, signature: str) -> None:
    if len(done) > len(rows):
        raise InputError(f"{str(path)!r} has more rows than the input: {REMEDY}")
    for place, (before, row) in enumerate(zip(done, rows, strict=False), start=1):
        if before.get("signature") != signature:
            raise InputError(
                f"{str(path)!r} was made as {before.get('signature')}, not as {signature}: {REMEDY}"
            )
        if any(before.get(key) != value for key, value in _plain(row).items()):
            raise InputError(
                f"row {place} of {str(path)!r} is not row {place} of the input, which must have "
                f"changed: {REMEDY}"
            )


def made_summary(rows: Iterable[Row]) -> str:
    """Counts of one run: captions, candidates, kept, and dropped by reason."""
    rows = list(rows)
    pairs = [pair for row in rows for pair in row["pairs"]]
    dropped = Counter(pair["dropped"] for pair in pairs)
    kept = dropped.pop(None, 0)
    failed = sum(row["failure"] is not None for row in rows)
    lines = [
        f"{len(rows):,} captions ({failed:,} failed), {len(pairs):,} candidates, {kept:,} kept"
    ]
    lines += [f"  {on_one_line(str(reason))}: {count:,}" for reason, count in dropped.most_common()]
    return "\n".join(lines)


def scored_summary(rows: Iterable[Row]) -> str:
    """Means over the rows that have scores, by model if there are several (paper, Table 1)."""
    rows = list(rows)
    models = dict.fromkeys(row.get("model") for row in rows)
    return "\n".join(
        _means([row for row in rows if row.get("model") == model], model) for model in models
    )


def _means(rows: list[Row], model: Any) -> str:
    shown = [f"{on_one_line(str(model))}: " if model is not None else ""]
    for name in ("helpfulness", "truthfulness", "average"):
        values = [row[name] for row in rows if row[name] is not None]
        mean = f"{sum(values) / len(values):.3f}" if values else "none"
        shown.append(f"{name} {mean} (of {len(values):,})  ")
    return "".join(shown).rstrip() + "; higher is better"
