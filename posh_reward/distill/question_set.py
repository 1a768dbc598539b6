"""A judge's answers about texts -> a dataset to train another judge on.

::

    train.parquet, validation.parquet, test.parquet   prompts with label distributions or rewrites
    texts.jsonl                                       the texts, with the edits of each
    question_set.json                                 teacher's signature, counts, digest

The questions are those that POSH's search asks. All questions about a reference are in one split,
and no prompt occurs twice. Failed answers are left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from posh_reward.distill.judge_runs import (
    JudgeChoice,
    QuestionLog,
    RunSettings,
    ScoredPair,
    build_logged_metric,
)
from posh_reward.embedded.english.likeness import likeness, load_colours
from posh_reward.embedded.english.meaning import coarse_pos, is_concrete, is_plural
from posh_reward.errors import ConfigError, InputError
from posh_reward.graph.reader import Reader
from posh_reward.posh.check import check_judge
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.posh.wording import build_prompt, build_rewrite_prompt
from posh_reward.process.locks import keep_folder, whole_file
from posh_reward.process.progress import progress_bar
from posh_reward.settings import SETTINGS_SUFFIXES
from posh_reward.store import Store
from posh_reward.tables.tables import find_arrow_type, format_json_line
from posh_reward.types import Description, Kind, Span, Token

# A judge trained on true texts alone sees hardly any mistakes. So objects, attributes and relations
# of a parsed text are swapped, left out, or added, and each edit is recorded. New words come from
# other texts of the same set, so they fit its vocabulary.
Action = Literal["swapped", "left out", "added"]
PREPOSITIONS = ("beside", "behind", "above", "under", "near", "against")
"""Prepositions that replace each other and introduce added objects."""
MAX_DONOR_LIKENESS = 0.3
"""Word similarity below which a word may replace another: neither synonym nor hyponym."""
MAX_TRIES = 30  # for all edits of a text together, and for each new word
MAX_EDITS_PER_TEXT = 3


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One mistake or omission: ``after`` replaces ``before``, which begins at ``start``."""

    kind: Kind
    action: Action
    start: int
    before: str
    after: str

    @property
    def end(self) -> int:
        """End of ``before`` in the original text."""
        return self.start + len(self.before)

    def touches(self, other: TextEdit) -> bool:
        """Return True if the parts that two edits replace overlap or adjoin."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class PerturbedText:
    """A text that no longer matches the original description."""

    text: str
    edits: tuple[TextEdit, ...]  # in order of the original text


class DonorWords:
    """Nouns, adjectives and sentences of many texts, for insertion into others."""

    def __init__(self, descriptions: Sequence[Description]) -> None:
        nouns: dict[str, None] = {}  # dictionaries, for the order in which the texts have them
        adjectives: dict[str, None] = {}
        sentences: dict[str, None] = {}
        for description in descriptions:
            for token in description.tokens:
                word = token.text.lower()
                if is_concrete_noun(token):
                    nouns[word] = None
                if is_adjective(token) and word.isalpha():
                    adjectives[word] = None
            for start, end in sentence_spans(description):
                sentences[description.text[start:end]] = None
        self.nouns: dict[bool, list[str]] = {False: [], True: []}  # singular, plural
        for word in nouns:
            self.nouns[is_plural((word, "n"))].append(word)
        self.adjectives = list(adjectives)
        self.sentences = list(sentences)


def perturb_text(
    description: Description, donors: DonorWords, rng: random.Random, edits: int | None = None
) -> PerturbedText | None:
    """Perturb a text with at most ``edits`` edits (default: random, 1 to ``MAX_EDITS_PER_TEXT``).

    Returns None if nothing could be changed.
    """
    draft = EditDraft(description, donors, rng)
    made: list[TextEdit] = []
    count = edits or rng.randint(1, MAX_EDITS_PER_TEXT)
    for _ in range(MAX_TRIES):
        if len(made) == count:
            break
        # First the kind of edit, then the word: a draw over all words would mostly hit nouns.
        edit = rng.choice(TEXT_EDITORS)(draft)
        if edit is not None and not any(map(edit.touches, made)):
            made.append(edit)
    made.sort(key=lambda edit: edit.start)
    text = description.text
    for edit in reversed(made):  # backwards, so that earlier offsets stay valid
        text = text[: edit.start] + edit.after + text[edit.end :]
    text = " ".join(text.split())
    if not made or text in ("", description.text):
        return None
    return PerturbedText(text, tuple(made))


@dataclass(frozen=True, slots=True)
class EditDraft:
    """A text to edit, with donor words and a random generator."""

    description: Description
    donors: DonorWords
    rng: random.Random

    def draw_token(self, fits: Callable[[Token], bool]) -> int | None:
        """Draw the index of a token that fits; None if there is none."""
        places = [i for i, token in enumerate(self.description.tokens) if fits(token)]
        if not places:
            return None
        return self.rng.choice(places)

    def new_words(self, words: Sequence[str]) -> list[str]:
        """Return those of ``words`` that are not in the text."""
        present = set(self.description.text.lower().split())
        return [word for word in words if word not in present]

    def swap_word(self, kind: Kind, index: int, words: Sequence[str]) -> TextEdit | None:
        """Replace a token by a word with another meaning, a colour by a colour."""
        token = self.description.tokens[index]
        old, pos = token.text.lower(), coarse_pos(token.pos)
        if old in load_colours():
            words = [word for word in words if word in load_colours()]
        words = self.new_words(words)
        if not words:
            return None
        for _ in range(MAX_TRIES):
            word = self.rng.choice(words)
            if likeness((old, pos), (word, pos)) < MAX_DONOR_LIKENESS:
                return self.replace_token(kind, "swapped", index, word)
        return None

    def replace_span(self, kind: Kind, action: Action, start: int, end: int, new: str) -> TextEdit:
        return TextEdit(kind, action, start, self.description.text[start:end], new)

    def replace_token(self, kind: Kind, action: Action, index: int, new: str) -> TextEdit:
        """Replace a token, or drop it for no new word; adjust its article and capitalisation."""
        tokens = self.description.tokens
        start, end = tokens[index].span
        if not new and index + 1 < len(tokens):  # the next word moves up
            end = tokens[index + 1].span[1]
            new = tokens[index + 1].text
        before = tokens[index - 1] if index else None
        if before is not None and before.text.lower() in ("a", "an"):
            article = "an" if new[:1].lower() in "aeiou" else "a"
            if before.text[0].isupper():
                article = article.capitalize()
            start, new = before.span[0], f"{article} {new}"
        elif tokens[index].text[0].isupper():
            new = new[:1].upper() + new[1:]
        return self.replace_span(kind, action, start, end, new)


def is_adjective(token: Token) -> bool:
    """Return True for an attributive adjective: a *red* coat."""
    return token.pos == "ADJ" and token.dep == "amod"


def is_concrete_noun(token: Token) -> bool:
    """Return True for a concrete noun: "coat", but not "middle"."""
    word = token.text.lower()
    return token.pos == "NOUN" and word.isalpha() and is_concrete((word, "n"))


def sentence_spans(description: Description) -> Iterator[Span]:
    tokens = description.tokens
    for number in dict.fromkeys(token.sentence for token in tokens):
        inside = [token.span for token in tokens if token.sentence == number]
        yield inside[0][0], inside[-1][1]


def swap_object(draft: EditDraft) -> TextEdit | None:
    """Swap a noun: "holds a *lantern*" for "holds a cup"."""
    index = draft.draw_token(is_concrete_noun)
    if index is None:
        return None
    plural = is_plural((draft.description.tokens[index].text.lower(), "n"))
    return draft.swap_word("entity", index, draft.donors.nouns[plural])


def swap_attribute(draft: EditDraft) -> TextEdit | None:
    """Swap an adjective, a colour for a colour: "a *blue* coat" for "a red coat"."""
    index = draft.draw_token(is_adjective)
    return None if index is None else draft.swap_word("attribute", index, draft.donors.adjectives)


def swap_relation(draft: EditDraft) -> TextEdit | None:
    """Swap a preposition ("a cup *under* the window") or the two ends of a relation."""
    index = draft.draw_token(lambda token: token.text.lower() in PREPOSITIONS)
    if index is not None and draft.rng.random() < 0.5:
        old = draft.description.tokens[index].text
        new = draft.rng.choice([place for place in PREPOSITIONS if place != old.lower()])
        return draft.replace_token("relation", "swapped", index, new)
    graph = draft.description.graph
    apart: list[tuple[Span, Span]] = []
    for relation in graph.relations:
        subject, other = graph.entities[relation.subject], graph.entities[relation.object]
        if subject.sentences[0] != other.sentences[0]:
            continue
        left, right = sorted((subject.spans[0], other.spans[0]))
        if left[1] < right[0]:
            apart.append((left, right))
    if not apart:
        return None
    (a, b), (c, d) = draft.rng.choice(apart)
    text = draft.description.text
    first, between, second = text[a:b], text[b:c], text[c:d]
    if first == second or not (first.islower() and second.islower()):
        return None
    if (first[0] in "aeiou") != (second[0] in "aeiou"):  # "a" and "an" would be wrong
        return None
    return draft.replace_span("relation", "swapped", a, d, second + between + first)


def leave_out_object(draft: EditDraft) -> TextEdit | None:
    """Leave out a sentence, unless it is the only one."""
    places = list(sentence_spans(draft.description))
    if len(places) < 2:
        return None
    return draft.replace_span("entity", "left out", *draft.rng.choice(places), "")


def leave_out_attribute(draft: EditDraft) -> TextEdit | None:
    """Leave out an adjective: "a coat" for "a red coat"."""
    index = draft.draw_token(is_adjective)
    return None if index is None else draft.replace_token("attribute", "left out", index, "")


def leave_out_relation(draft: EditDraft) -> TextEdit | None:
    """Leave out a prepositional phrase: "holds a cup" for "holds a cup near the window"."""
    tokens = draft.description.tokens
    index = draft.draw_token(lambda token: token.dep == "prep" and token.text.islower())
    if index is None:
        return None
    inside = {index}
    for _ in tokens:  # all descendants of the preposition, one level per pass
        inside |= {i for i, token in enumerate(tokens) if token.head in inside}
    if sorted(inside) != list(range(min(inside), max(inside) + 1)) or len(inside) > 8:
        return None
    start = tokens[min(inside) - 1].span[1] if min(inside) else tokens[0].span[0]
    return draft.replace_span("relation", "left out", start, tokens[max(inside)].span[1], "")


def add_object(draft: EditDraft) -> TextEdit | None:
    """Add a sentence of another text."""
    places = list(sentence_spans(draft.description))
    text = draft.rng.choice(draft.donors.sentences)
    if text in draft.description.text or not places:
        return None
    _, end = draft.rng.choice(places)
    return draft.replace_span("entity", "added", end, end, f" {text}")


def add_attribute(draft: EditDraft) -> TextEdit | None:
    """Add an adjective: "a *wooden* cup"."""
    tokens = draft.description.tokens
    heads = {token.head for token in tokens if token.dep in ("amod", "nummod", "compound")}
    places = [
        i
        for i, token in enumerate(tokens)
        if is_concrete_noun(token) and i and i not in heads and tokens[i - 1].pos == "DET"
    ]
    words = draft.new_words(draft.donors.adjectives)
    if not places or not words:
        return None
    index, word = draft.rng.choice(places), draft.rng.choice(words)
    return draft.replace_token("attribute", "added", index, f"{word} {tokens[index].text}")


def add_relation(draft: EditDraft) -> TextEdit | None:
    """Add an object with a relation: "holds a cup *beside a tree*"."""
    text = draft.description.text
    places = [end - 1 for _, end in sentence_spans(draft.description) if text[end - 1] == "."]
    words = draft.new_words(draft.donors.nouns[False])
    if not places or not words:
        return None
    end, word = draft.rng.choice(places), draft.rng.choice(words)
    article = "an" if word[0] in "aeiou" else "a"
    phrase = f" {draft.rng.choice(PREPOSITIONS)} {article} {word}"
    return draft.replace_span("relation", "added", end, end, phrase)


TEXT_EDITORS: tuple[Callable[[EditDraft], TextEdit | None], ...] = (
    swap_object, swap_attribute, swap_relation,
    leave_out_object, leave_out_attribute, leave_out_relation,
    add_object, add_attribute, add_relation,
)  # fmt: skip
"""Three kinds times three actions, equally likely."""


Origin = Literal["honest", "perturbed", "policy"]
"""honest: a reference scored against itself; perturbed: a reference with mistakes and omissions;
policy: a text of the table."""
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Task = Literal["grade", "rewrite"]
TASKS: tuple[Task, ...] = ("grade", "rewrite")
HELD_OUT_SHARE = 0.1  # share of the references in each of validation and test
SUMMARY_FILE = "question_set.json"
FORMAT_VERSION = 1


class QuestionRow(NamedTuple):
    """A prompt and its answer."""

    split: Split
    task: Task
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
    edits: Sequence[TextEdit] = ()


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


def collect_answers(
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
    """
    # Checked before anything is asked: a large judge's answers cost hours.
    splits = {choose_split(text_digest(reference.strip())) for _, reference in rows}
    if empty := [split for split in SPLITS if split not in splits]:
        raise InputError(
            f"no reference falls into {', '.join(empty)}: use more references, about fifty"
        )
    keep_folder(folder)
    store = Store(settings.store or folder / "answers.sqlite")
    reader = Reader(settings.parser, settings.coref, capacity=4 * settings.batch, store=store)
    texts = list(origin_texts(rows, reader, settings, perturbations, seed))
    metric, log = build_logged_metric(choice, reader, store)
    check_judge(metric)
    by_prompt: dict[tuple[str, str], QuestionRow] = {}
    failures = 0
    with progress_bar("collecting", len(texts), "pair", settings.quiet) as bar:
        for start in range(0, len(texts), settings.batch):
            some = texts[start : start + settings.batch]
            origins = {each.pair: each.origin for each in some}
            generations, references = zip(*(each.pair for each in some), strict=True)
            metric.score(generations, references)
            failures += _collect_rows(log, origins, choice.preset, by_prompt)
            bar.update(len(some))
    log.close()
    judge = choice.judge
    if isinstance(judge, str) and judge.lower().endswith(SETTINGS_SUFFIXES):
        judge = str(Path(judge).resolve())  # the student's folder may move
    answers = list(by_prompt.values())
    counts: dict[str, dict[str, int]] = {split: dict.fromkeys(TASKS, 0) for split in SPLITS}
    for row in answers:
        counts[row.split][row.task] += 1
    summary = QuestionSet(
        version=FORMAT_VERSION,
        judge=judge,
        teacher=metric.signature,
        preset=choice.preset,
        digest=digest_rows(answers),
        texts=dict(Counter(each.origin for each in texts)),
        rows=counts,
        failed=failures,
        present_share=_present_share(answers),
    )
    _write_question_set(folder, answers, texts, summary)
    return summary


def _present_share(rows: Sequence[QuestionRow]) -> float:
    """Return the share of the questions whose mean label says "present"."""
    grades = []
    for row in rows:
        if row.probabilities is not None:
            grades.append(fsum(p * label for label, p in enumerate(row.probabilities, start=1)))
    return sum(grade >= MIN_PRESENT_GRADE for grade in grades) / max(len(grades), 1)


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
            text = perturb_text(description, donors, rng)
            if text is not None:
                yield OriginText(ScoredPair(text.text, reference), "perturbed", text.edits)


def _collect_rows(
    log: QuestionLog,
    origins: Mapping[ScoredPair, Origin],
    preset: str,
    rows: dict[tuple[str, str], QuestionRow],
) -> int:
    """Move a judge's log into ``rows``; return the number of failed answers."""
    failures = 0
    # POSH strips texts, so the questions' keys have stripped ones.
    stripped = {
        ScoredPair(pair.generation.strip(), pair.reference.strip()): origin
        for pair, origin in origins.items()
    }
    for key, verdict in log.verdicts.items():
        ask = build_prompt(log.questions[key], preset)
        if verdict.probabilities is None:
            failures += 1
            continue
        digest = text_digest(key.pair.reference)
        row = QuestionRow(
            choose_split(digest), "grade", ask.prefix, ask.suffix, list(verdict.probabilities),
            None, key.kind, key.direction, stripped[key.pair], digest,
        )  # fmt: skip
        # Several texts may share a prompt: it gets one row, so that it does not weigh more.
        rows.setdefault((row.prefix, row.suffix), row)
    for phrase, reply in log.replies.items():
        ask = build_rewrite_prompt(phrase, preset)
        if reply.text is None:
            failures += 1
            continue
        # A phrase may come from many references, so its own text decides its split.
        row = QuestionRow(
            choose_split(text_digest(phrase.text)), "rewrite", ask.prefix, ask.suffix, None,
            reply.text, phrase.kind, "", "", "",
        )  # fmt: skip
        rows.setdefault((row.prefix, row.suffix), row)
    log.clear()
    return failures


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def choose_split(digest: str) -> Split:
    """Choose a reference's split by its digest alone, so that added texts move no others."""
    place = int(digest, 16) / 16 ** len(digest)
    if place < HELD_OUT_SHARE:
        return "test"
    if place < 2 * HELD_OUT_SHARE:
        return "validation"
    return "train"


def digest_rows(rows: Iterable[QuestionRow]) -> str:
    lines = "\n".join(sorted(json.dumps(row) for row in rows))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def describe_summary(summary: QuestionSet) -> str:
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


def _write_question_set(
    folder: Path, rows: Sequence[QuestionRow], texts: Sequence[OriginText], summary: QuestionSet
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    hints = get_type_hints(QuestionRow)
    schema = pa.schema([(name, find_arrow_type(hint)) for name, hint in hints.items()])
    about = json.dumps(asdict(summary))
    for split in SPLITS:
        inside = [row._asdict() for row in rows if row.split == split]
        table = pa.Table.from_pylist(inside, schema.with_metadata({"question_set": about}))
        with whole_file(folder / f"{split}.parquet") as file:
            pq.write_table(table, file, compression="zstd")
    with whole_file(folder / "texts.jsonl") as file:
        for each in texts:
            edits = list(map(asdict, each.edits))
            split = choose_split(text_digest(each.pair.reference.strip()))
            row = {**each.pair._asdict(), "origin": each.origin, "edits": edits, "split": split}
            file.write(format_json_line(row))
    with whole_file(folder / SUMMARY_FILE) as file:
        file.write(json.dumps(asdict(summary), indent=2).encode() + b"\n")


def read_question_set(folder: Path) -> QuestionSet:
    import pyarrow.parquet as pq

    try:
        content: dict[str, Any] = json.loads((folder / SUMMARY_FILE).read_text("utf-8"))
        summary = QuestionSet(**content)
        schemas = [pq.read_schema(folder / f"{split}.parquet") for split in SPLITS]
        is_whole = all(json.loads(each.metadata[b"question_set"]) == content for each in schemas)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{str(folder)!r} is not a question set ({error}): make one with "
            "posh-reward judges collect"
        ) from None
    if summary.version != FORMAT_VERSION:
        raise ConfigError(f"{str(folder)!r} has version {summary.version}: collect it again")
    if not is_whole:
        raise ConfigError(
            f"{str(folder)!r} holds files of different question sets: collect it again"
        )
    return summary
