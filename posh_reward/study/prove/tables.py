"""Tables of captions -> verified questions; tables of responses -> scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import InputError
from posh_reward.study.prove.resumed import REMEDY, How, Table, go_on, plain
from posh_reward.study.rows.files import check_apart
from posh_reward.study.rows.formats import STANDARD, format_of
from posh_reward.study.rows.journal import Journal, Row
from posh_reward.study.rows.writing import write_table
from posh_reward.types import Failure

if TYPE_CHECKING:
    from posh_reward.metrics.prove.metric import Prove
    from posh_reward.metrics.prove.pipeline import PairMaker
    from posh_reward.metrics.prove.records import ProveScores
    from posh_reward.metrics.prove.sifting import Made

SCORED = ("response", "answer", "question", "caption")
"""Columns of what is scored."""


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
    table = Table(source, {"caption": caption}, how)

    def work(batch: Sequence[Row]) -> list[Row]:
        images = None if maker.entailment is None else _pictures(batch, source)
        made = maker.make([row["caption"] for row in batch], images)
        return [
            _made_row(row, each, maker.signature) for row, each in zip(batch, made, strict=True)
        ]

    with closing(Journal(candidates)) as journal:
        done = go_on(journal, table, work, maker.signature, how)
    write_table([pair for row in done for pair in kept_rows(row)], Path(output), format)
    return done


def _made_row(head: Row, made: Made, signature: str) -> Row:
    return {
        **plain(head),
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
    table = Table(source, dict(zip(SCORED, SCORED, strict=True)) | dict(columns or {}), how)

    def work(batch: Sequence[Row]) -> list[Row]:
        images = None if prove.entailment is None else _pictures(batch, source)
        responses, answers, questions, captions = ([row[name] for row in batch] for name in SCORED)
        scores = prove.score(responses, answers, questions, captions, images)
        return [_scored_row(row, each) for row, each in zip(batch, scores, strict=True)]

    with closing(Journal(Path(output))) as journal:
        return go_on(journal, table, work, prove.signature, how)


def _scored_row(head: Row, scores: ProveScores) -> Row:
    return {
        **plain(head),
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


def _pictures(batch: Sequence[Row], source: str) -> list[object]:
    folder = Path.cwd() if source == STANDARD else Path(source).parent
    return [_found(row.get("image"), folder) for row in batch]


def _found(image: object, folder: Path) -> object:
    """A path as it is, if it leads somewhere, otherwise as seen from the input's folder."""
    if not isinstance(image, str) or Path(image).exists():
        return image
    return str(folder / image)
