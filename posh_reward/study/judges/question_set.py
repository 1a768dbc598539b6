"""A judge's answers about texts -> a dataset to train another judge on.

::

    train.parquet, validation.parquet, test.parquet   prompts with label distributions or rewrites
    texts.jsonl                                       the texts, with the edits of each
    question_set.json                                 teacher's signature, counts, digest

The questions are those that POSH's search asks. No reference is in two splits, and no prompt occurs
twice. Failed answers are left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from posh_reward.errors import ConfigError, InputError
from posh_reward.graph.reader import Reader
from posh_reward.metrics.posh.judges.judge import check_judge
from posh_reward.metrics.posh.presets import prompt, rewrite_prompt
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.process.file_lock import keep_folder
from posh_reward.process.progress import progress_bar
from posh_reward.settings import ENDINGS
from posh_reward.store import Store
from posh_reward.study.judges.judge_runs import (
    JudgeChoice,
    QuestionLog,
    RunSettings,
    ScoredPair,
    log_of,
    metric_of,
)
from posh_reward.study.judges.perturbed_texts import DonorWords, PerturbedText, perturb
from posh_reward.study.rows.tables import as_line, whole_file
from posh_reward.types import Description

Origin = Literal["honest", "perturbed", "policy"]
"""honest: a reference scored against itself; perturbed: a reference with mistakes and omissions;
policy: a text of the table."""
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
HELD_OUT = 0.1  # share of the references in each of validation and test
SUMMARY = "question_set.json"
VERSION = 1


class QuestionRow(NamedTuple):
    """A prompt and its answer."""

    split: Split
    task: Literal["grade", "rewrite"]
    prefix: str
    suffix: str
    probabilities: list[float] | None  # one per label, 1 to 5; None for a rewrite
    reply: str | None  # None for a grade
    kind: str
    direction: str
    origin: str
    reference: str  # digest of the reference; empty for a rewrite


class OriginText(NamedTuple):
    """A pair to collect answers about."""

    pair: ScoredPair
    origin: Origin
    perturbation: PerturbedText | None = None


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Summary of a collected dataset."""

    version: int
    judge: str | Mapping[str, Any]  # name, absolute path or settings; a cascade asks it
    teacher: str  # signature of the metric with this judge
    preset: str
    digest: str  # of all rows
    texts: Mapping[str, int]  # by origin
    rows: Mapping[str, Mapping[str, int]]  # by split, then by task
    failed: int
    present_share: float  # share of questions answered "present": accuracy of always saying so


def collect(
    choice: JudgeChoice,
    rows: Sequence[tuple[str | None, str]],
    folder: Path,
    settings: RunSettings,
    *,
    perturbations: int = 3,
    seed: int = 0,
) -> QuestionSet:
    """Have a judge answer all that POSH asks about the texts, and write the dataset to ``folder``.

    A store, by default in the folder, keeps language models' answers, so a killed run resumes.

    Args:
        choice: the teacher.
        rows: generation (or None) and reference of each row.
        folder: created if missing.
        settings: of reading and judging.
        perturbations: perturbed texts per reference.
        seed: of the perturbations.

    Raises:
        BusyError, InputError: another process writes the folder, or a split would be empty.
        JudgeError: the judge cannot work or judge; its answers so far are in the store.
    """
    _check_splits(reference for _, reference in rows)
    keep_folder(folder)
    store = Store(settings.store or folder / "answers.sqlite")
    reader = Reader(settings.parser, settings.coref, capacity=4 * settings.batch, store=store)
    texts = list(origin_texts(rows, reader, settings, perturbations, seed))
    metric = metric_of(choice, reader, store)
    check_judge(metric)
    log = log_of(metric)
    rows_of: dict[tuple[str, str], QuestionRow] = {}
    failures = 0
    with progress_bar("collecting", len(texts), "pair", settings.quiet) as bar:
        for start in range(0, len(texts), settings.batch):
            some = texts[start : start + settings.batch]
            metric.score([each.pair.generation for each in some],
                         [each.pair.reference for each in some])  # fmt: skip
            origins = {each.pair: each.origin for each in some}
            failures += _collect_rows(log, origins, choice.preset, rows_of)
            bar.update(len(some))
    log.close()
    answers = list(rows_of.values())
    summary = QuestionSet(
        version=VERSION,
        judge=_found_from_anywhere(choice.judge),
        teacher=metric.signature,
        preset=choice.preset,
        digest=digest_of(answers),
        texts=dict(Counter(each.origin for each in texts)),
        rows=counts(answers),
        failed=failures,
        present_share=present_share(answers),
    )
    _write(folder, answers, texts, summary)
    return summary


def _found_from_anywhere(judge: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Make the path of a settings file absolute: the student's folder may move."""
    if isinstance(judge, str) and judge.lower().endswith(ENDINGS):
        return str(Path(judge).resolve())
    return judge


def origin_texts(
    rows: Sequence[tuple[str | None, str]],
    reader: Reader,
    settings: RunSettings,
    perturbations: int,
    seed: int,
) -> Iterator[OriginText]:
    """Yield the table's pairs, then each reference against itself and its perturbations."""
    references = list(dict.fromkeys(reference for _, reference in rows))
    descriptions: list[Description] = []
    for start in range(0, len(references), settings.batch):
        batch = reader.read(references[start : start + settings.batch], keep=True)
        descriptions += [each for each in batch if isinstance(each, Description)]
    donors = DonorWords(descriptions)
    for generation, reference in dict.fromkeys(rows):
        if generation is not None:
            yield OriginText(ScoredPair(generation, reference), "policy")
    for description in descriptions:
        reference = description.text
        yield OriginText(ScoredPair(reference, reference), "honest")
        for number in range(perturbations):
            rng = random.Random(f"{seed}/{number}/{reference}")
            text = perturb(description, donors, rng)
            if text is not None:
                yield OriginText(ScoredPair(text.text, reference), "perturbed", text)


def _collect_rows(
    log: QuestionLog,
    origins: Mapping[ScoredPair, Origin],
    preset: str,
    rows: dict[tuple[str, str], QuestionRow],
) -> int:
    """Move a judge's log into ``rows``; return the number of failed answers."""
    failures = 0
    # POSH strips texts, so the questions' keys have stripped ones.
    origin_of = {ScoredPair(*(text.strip() for text in pair)): o for pair, o in origins.items()}
    for key, verdict in log.verdicts.items():
        ask = prompt(log.questions[key], preset)
        pair = ScoredPair(key.source, key.target)
        pair = pair if key.direction == "precision" else ScoredPair(*pair[::-1])
        if verdict.probabilities is None:
            failures += 1
            continue
        digest = reference_digest(pair.reference)
        row = QuestionRow(
            split_of(digest), "grade", ask.prefix, ask.suffix, list(verdict.probabilities),
            None, key.kind, key.direction, origin_of[pair], digest,
        )  # fmt: skip
        # Several texts may share a prompt: it gets one row, so that it does not weigh more.
        rows.setdefault((row.prefix, row.suffix), row)
    for phrase, reply in log.replies.items():
        ask = rewrite_prompt(phrase, preset)
        if reply.text is None:
            failures += 1
            continue
        # A phrase may come from many references, so its own text decides its split.
        row = QuestionRow(
            split_of(reference_digest(phrase.text)), "rewrite", ask.prefix, ask.suffix, None,
            reply.text, phrase.kind, "", "", "",
        )  # fmt: skip
        rows.setdefault((row.prefix, row.suffix), row)
    for each in (log.questions, log.verdicts, log.replies):
        each.clear()
    return failures


def reference_digest(text: str) -> str:
    """Hash a text to 16 hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def split_of(digest: str) -> Split:
    """Choose a reference's split by its digest alone, so that added texts move no others."""
    place = int(digest, 16) / 16 ** len(digest)
    return "test" if place < HELD_OUT else "validation" if place < 2 * HELD_OUT else "train"


def _check_splits(references: Iterable[str]) -> None:
    # Checked before anything is asked: a large judge's answers cost hours.
    splits = {split_of(reference_digest(reference.strip())) for reference in references}
    empty = [split for split in SPLITS if split not in splits]
    if empty:
        raise InputError(
            f"no reference falls into {', '.join(empty)}: use more references, about fifty"
        )


def counts(rows: Iterable[QuestionRow]) -> dict[str, dict[str, int]]:
    """Count rows by split, then by task."""
    count = Counter((row.split, row.task) for row in rows)
    return {split: {task: count[split, task] for task in ("grade", "rewrite")} for split in SPLITS}


def present_share(rows: Iterable[QuestionRow]) -> float:
    """Share of graded questions whose expected grade is ``PRESENT`` or more."""
    grades = [
        fsum(p * label for label, p in enumerate(row.probabilities, start=1))
        for row in rows
        if row.probabilities is not None
    ]
    return sum(grade >= PRESENT for grade in grades) / max(len(grades), 1)


def digest_of(rows: Iterable[QuestionRow]) -> str:
    """Hash all rows, independent of their order."""
    lines = sorted(json.dumps(row) for row in rows)
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return whole.hexdigest()[:16]


def listing(summary: QuestionSet) -> str:
    """Format the summary for people."""
    texts = ", ".join(f"{count:,} {origin}" for origin, count in summary.texts.items())
    rows = "; ".join(
        f"{split}: {tasks['grade']:,} questions, {tasks['rewrite']:,} rewrites"
        for split, tasks in summary.rows.items()
    )
    return (
        f"texts: {texts}\n{rows}\n{summary.failed:,} failed answers are left out; "
        f"{summary.present_share:.1%} of the questions are answered 'present'\n"
        f"teacher: {summary.teacher}"
    )


def _write(
    folder: Path, rows: Sequence[QuestionRow], texts: Sequence[OriginText], summary: QuestionSet
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([
        *((name, pa.string()) for name in ("split", "task", "prefix", "suffix")),
        ("probabilities", pa.list_(pa.float64())),
        *((name, pa.string()) for name in ("reply", "kind", "direction", "origin", "reference")),
    ])  # fmt: skip
    about = json.dumps(asdict(summary))
    for split in SPLITS:
        inside = [row._asdict() for row in rows if row.split == split]
        table = pa.Table.from_pylist(inside, schema.with_metadata({"question_set": about}))
        with whole_file(folder / f"{split}.parquet") as file:
            pq.write_table(table, file, compression="zstd")
    with whole_file(folder / "texts.jsonl") as file:
        for each in texts:
            edits = [asdict(edit) for edit in each.perturbation.edits] if each.perturbation else []
            row = {**each.pair._asdict(), "origin": each.origin, "edits": edits,
                   "split": split_of(reference_digest(each.pair.reference.strip()))}  # fmt: skip
            file.write(as_line(row))
    with whole_file(folder / SUMMARY) as file:
        file.write(json.dumps(asdict(summary), indent=2).encode() + b"\n")


def read_question_set(folder: Path) -> QuestionSet:
    """Read the summary of a dataset.

    Raises:
        ConfigError: ``collect`` did not write all of it, or its rows were changed since.
    """
    import pyarrow.parquet as pq

    try:
        content: dict[str, Any] = json.loads((folder / SUMMARY).read_text("utf-8"))
        summary = QuestionSet(**content)
        schemas = [pq.read_schema(folder / f"{split}.parquet") for split in SPLITS]
        is_whole = all(json.loads(each.metadata[b"question_set"]) == content for each in schemas)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{str(folder)!r} is not a question set ({error}): make one with "
            "posh-reward judges collect"
        ) from None
    if summary.version != VERSION:
        raise ConfigError(f"{str(folder)!r} has version {summary.version}: collect it again")
    if not is_whole:
        raise ConfigError(
            f"{str(folder)!r} holds files of different question sets: collect it again"
        )
    # The card names this digest, and a test row among the training rows would flatter the student.
    if digest_of(_read_rows(folder)) != summary.digest:
        raise ConfigError(
            f"the rows in {str(folder)!r} are not those that were collected: collect it again"
        )
    return summary


def _read_rows(folder: Path) -> Iterator[QuestionRow]:
    """Yield the rows of all files, each with the split of its file."""
    import pyarrow.parquet as pq

    for split in SPLITS:
        for row in pq.read_table(folder / f"{split}.parquet").to_pylist():
            yield QuestionRow(**row | {"split": split})
