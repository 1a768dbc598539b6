"""Captions -> questions that programs verify (paper, section 3.1).

::

    caption --tuples--> scene graph --writer--> candidates: question, answer, program
    checks: program over the graph == answer, but not over other graphs;
            taboo, trivial, review, image, duplicate

Each candidate is kept, or dropped for the first check that fails.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from os import PathLike
from typing import Any, Literal, get_args

from posh_reward.errors import InputError
from posh_reward.metrics.metric import as_lists, build_signature
from posh_reward.models import encoders
from posh_reward.models.asker import READING_VERSION, CachingModel
from posh_reward.models.model import Model, Prompt, make_savable, read_distribution, resolve_model
from posh_reward.models.prompt_images import load_prompt_images
from posh_reward.other_metrics.prove.program_language import (
    ALLOWED_BUILTINS,
    MAX_PROGRAM_CHARACTERS,
    Nodes,
    Value,
)
from posh_reward.other_metrics.prove.prove import Entailment, load_entailment, read_inputs
from posh_reward.other_metrics.prove.sandbox import UNRUN, ProgramResult, Sandbox, run_programs
from posh_reward.other_metrics.prove.tuples import (
    OTHER_KIND,
    WORDING_EDITION,
    WORDS_BY_KIND,
    TupleSource,
    ask_replies,
    ask_verdicts,
    build_prompt,
    load_tuple_source,
    read_scenes,
)
from posh_reward.store import Store, open_store
from posh_reward.types import Failure, PromptImage, Reply, Verdict

MAX_REPLY_TOKENS = 6144  # fifteen questions with programs take about 3,000
MAX_TEXT_CHARACTERS = 1000  # of a question or an answer
MAX_CANDIDATES_PER_REPLY = 50  # the prompt asks for fifteen
MAX_REPLY_CHARACTERS = 100_000
"""Four times the length of a reply of ``MAX_REPLY_TOKENS``; the rest is ignored."""
MAX_UNFINISHED_CHARACTERS = 10 * MAX_REPLY_CHARACTERS
"""Of unfinished objects; after so many, the rest of a reply is ignored."""
OBJECT_START = re.compile(r'\{\s*["}]')  # start of a JSON object
UNSAFE_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, direction marks, and lone surrogates, which cannot be encoded."""
CANDIDATE_KEYS = ("question", "answer", "program")


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """An unverified question from the writer."""

    question: str
    answer: str
    program: str


def build_writing_prompt(caption: str, nodes: Nodes) -> Prompt:
    """Build the prompt that asks for questions about one image."""
    scene = json.dumps(nodes, ensure_ascii=False)
    values = {"caption": caption, "scene": scene, "builtins": ", ".join(ALLOWED_BUILTINS)}
    return build_prompt("write", values)


def read_candidates(reply: str) -> list[QuestionCandidate | Failure]:
    """Read one candidate per JSON object in a reply; any text between objects is ignored.

    A truncated reply yields its complete objects, one without objects a single failure. Time is
    bounded for any reply.
    """
    reply = reply[:MAX_REPLY_CHARACTERS]
    decoder = json.JSONDecoder()
    candidates: list[QuestionCandidate | Failure] = []
    in_vain = place = 0
    while len(candidates) < MAX_CANDIDATES_PER_REPLY and in_vain < MAX_UNFINISHED_CHARACTERS:
        opening = OBJECT_START.search(reply, place)
        if opening is None:
            break
        try:
            value, place = decoder.raw_decode(reply, opening.start())
        except (ValueError, RecursionError) as error:
            # JSONDecodeError counts lines from the start, so each costs up to its position.
            in_vain += (
                error.pos if isinstance(error, json.JSONDecodeError) else MAX_REPLY_CHARACTERS
            )
            place = opening.start() + 1
        else:
            candidates.append(read_candidate(value))
    return candidates or [Failure("reply", "the writer's reply has no JSON object")]


def read_candidate(value: object) -> QuestionCandidate | Failure:
    """Read a candidate from a JSON object; a failure if a text is missing or too long."""
    found = value if isinstance(value, dict) else {}
    texts: list[str] = []
    for key in CANDIDATE_KEYS:
        text = found.get(key)
        texts.append(text if isinstance(text, str) else "")
    question = UNSAFE_CHARACTERS.sub(" ", texts[0]).strip()
    answer = UNSAFE_CHARACTERS.sub(" ", texts[1]).strip()
    program = make_savable(texts[2])
    if not (question and answer and program.strip()):
        return Failure("reply", "the object has no question, answer or program")
    if (
        max(len(question), len(answer)) > MAX_TEXT_CHARACTERS
        or len(program) > MAX_PROGRAM_CHARACTERS
    ):
        return Failure("reply", "its question, answer or program is too long")
    return QuestionCandidate(question, answer, program.strip("\n"))


MIN_SHARED_WORD_SHARE = 0.8  # of a program's words that occur in the question or answer
NEGATION_WORDS = frozenset("no not never none nothing nobody without t".split())  # t: from "isn't"
KIND_NAMES = frozenset([*WORDS_BY_KIND, OTHER_KIND, "type", "texture", "spatial", "action"])
"""Kinds of attributes and relations: keys in a program's value, not content."""


def matches_answer(value: Value, question: str, answer: str) -> bool:
    """Return True if a program's value matches the stated answer.

    The paper compares sentence embeddings, with a threshold that it does not publish. To embeddings
    "red" and "black" are similar, so we compare words: most words of the value, including every
    number, must occur in the pair, and at least one in the answer only.
    """
    if isinstance(value, bool):
        return value == says_yes(answer)
    in_question = set(encoders.content_words(question))
    in_answer = set(encoders.content_words(answer))
    pair = in_question | in_answer
    words = encoders.content_words(join_texts(value))
    content = [word for word in words if word in pair or word not in KIND_NAMES]
    shared = list(filter(pair.__contains__, content))
    if not content or any(map(str.isdecimal, set(content) - pair)):
        return False
    only_in_answer = in_answer - in_question
    share = len(shared) / len(content)
    return share >= MIN_SHARED_WORD_SHARE and not only_in_answer.isdisjoint(content)


def says_yes(answer: str) -> bool:
    """Return True if an answer begins with "yes" or has no negation."""
    words = re.findall(r"\w+", answer.casefold())
    return bool(words) and (words[0] == "yes" or not NEGATION_WORDS.intersection(words))


def join_texts(value: Value) -> str:
    """Join all texts and numbers in a program's value by blanks."""
    return " ".join(_iterate_texts(value))


def _iterate_texts(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _iterate_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iterate_texts(each)
    elif value is not None:
        yield str(value)


def is_trivial(question: str, answer: str) -> bool:
    """Return True if the answer adds no word: "What is the concrete bar made of?" "Concrete"."""
    return not set(encoders.content_words(answer)) - set(encoders.content_words(question))


def find_taboo_word(question: str, answer: str, taboo: frozenset[str]) -> str | None:
    """Find the first taboo word in the pair; None if there is none."""
    words: list[str] = re.findall(r"\w+", f"{question} {answer}".casefold())
    for word in words:
        if word in taboo:
            return word
    return None


SIFTING_VERSION = "3"  # raise it with any change of what is dropped or why; part of the signature
Drop = Literal[
    "unreadable", "refused", "failed", "unrun", "mismatch", "constant", "taboo", "trivial",
    "incomplete", "unnatural", "unentailed", "unjudged", "duplicate",
]  # fmt: skip
"""Reasons to drop a candidate.

unreadable: the writer's object is not a question with an answer and a program.
refused: the program uses a construct that is not allowed.
failed: the program raised an error or exceeded its limits.
unrun: earlier programs of the same reply used up its processor time.
mismatch: the program's value differs from the stated answer.
constant: the program returns the same value over an empty or an unrelated graph.
taboo: the pair contains a taboo word.
trivial, incomplete, unnatural: the reviewer's reasons (paper, Fig. 10); "trivial" is also found
without a reviewer, by comparing words.
unentailed: the image does not show it.
unjudged: the reviewer, the entailment judge, or the process that runs programs failed.
duplicate: it repeats an earlier pair of the same image.
"""
DROP_REASONS: tuple[Drop, ...] = get_args(Drop)
REVIEW_DROPS: dict[str, Drop | None] = {
    "D": "unnatural",
    "C": "incomplete",
    "B": "trivial",
    "A": None,
}
"""The reviewer's letters, worst first -> reason to drop, None for a good pair."""
UNRELATED_GRAPH: Nodes = {
    "glorp": {
        "attributes": {"color": "vermeil", "count": "ninety"},
        "relations_to": {"zant": {"spatial": ["athwart"], "action": ["quaffs"]}},
    },
    "zant": {"attributes": {}, "relations_to": {}},
}
"""A graph unrelated to any caption."""
OTHER_GRAPHS: tuple[Nodes, ...] = ({}, UNRELATED_GRAPH)
"""Graphs over which a program must return a different value than over the caption's."""
MIN_ENTAILMENT_PROBABILITY = 0.5  # below it a pair is dropped


@dataclass(frozen=True, slots=True)
class QuestionPair:
    """A question with its answer and the program that verifies it."""

    question: str
    answer: str
    program: str
    value: Value = None  # returned by the program
    dropped: Drop | None = None  # None: kept
    why: str = ""  # details of the reason


@dataclass(frozen=True, slots=True)
class CaptionQuestions:
    """All candidates about one image, or the reason why there are none."""

    pairs: tuple[QuestionPair, ...]
    failure: Failure | None = None

    @property
    def survivors(self) -> tuple[QuestionPair, ...]:
        return tuple(_select_kept(self.pairs))

    @property
    def drops(self) -> dict[Drop, int]:
        """Reason -> number of candidates dropped for it."""
        counts = Counter(pair.dropped for pair in self.pairs)
        return {reason: counts[reason] for reason in DROP_REASONS if counts[reason]}


Reason = tuple[Drop, str] | None
"""Reason for dropping a pair, with details; None if it is kept."""


def _select_kept(pairs: Sequence[QuestionPair]) -> list[QuestionPair]:
    return [pair for pair in pairs if pair.dropped is None]


def _drop_pairs(pairs: Sequence[QuestionPair], reasons: Iterable[Reason]) -> list[QuestionPair]:
    """Drop pairs; ``reasons`` has one for each that is kept so far."""
    rest = iter(reasons)
    left = list(pairs)
    for place, pair in enumerate(pairs):
        if pair.dropped is None and (reason := next(rest)) is not None:
            left[place] = replace(pair, dropped=reason[0], why=reason[1])
    return left


def verify_candidates(
    candidates: Sequence[QuestionCandidate | Failure], nodes: Nodes, sandbox: Sandbox
) -> list[QuestionPair]:
    """Run the candidates' programs over the scene; drop those that do not verify the answer."""
    readable = [each for each in candidates if isinstance(each, QuestionCandidate)]
    results = iter(run_programs(sandbox, [each.program for each in readable], nodes))
    pairs: list[QuestionPair] = []
    for each in candidates:
        if isinstance(each, Failure):
            pairs.append(QuestionPair("", "", "", None, "unreadable", str(each)))
        else:
            pair = QuestionPair(each.question, each.answer, each.program)
            pairs.append(_compare_with_answer(pair, next(results)))
    # A constant verifies nothing: over other graphs, a program must return something else.
    for other in OTHER_GRAPHS:
        kept = _select_kept(pairs)
        values = run_programs(sandbox, [pair.program for pair in kept], other)
        pairs = _drop_pairs(pairs, map(_find_constant, kept, values, repeat(other)))
    return pairs


def _compare_with_answer(pair: QuestionPair, result: ProgramResult | Failure) -> QuestionPair:
    if isinstance(result, Failure):
        # An engine failure is that of the process, not of the program.
        reasons: dict[str, Drop] = {"engine": "unjudged", "reply": "refused"}
        dropped = "unrun" if result is UNRUN else reasons.get(result.kind, "failed")
        return replace(pair, dropped=dropped, why=str(result))
    pair = replace(pair, value=result.value)
    if matches_answer(result.value, pair.question, pair.answer):
        return pair
    return replace(pair, dropped="mismatch", why=f"found {join_texts(result.value) or 'nothing'!r}")


def _find_constant(pair: QuestionPair, result: ProgramResult | Failure, other: Nodes) -> Reason:
    if result is UNRUN:
        return "unrun", str(result)
    if result == ProgramResult(pair.value):
        graph = "a graph of something else" if other else "an empty graph"
        return "constant", f"the same is found in {graph}"
    return None


def sift_words(pairs: Sequence[QuestionPair], taboo: frozenset[str]) -> list[QuestionPair]:
    """Drop pairs with taboo words, and those whose answer adds no word to the question."""

    def find_reason(pair: QuestionPair) -> Reason:
        word = find_taboo_word(pair.question, pair.answer, taboo)
        if word is not None:
            return "taboo", word
        if is_trivial(pair.question, pair.answer):
            return "trivial", "the answer adds no word to the question"
        return None

    return _drop_pairs(pairs, map(find_reason, _select_kept(pairs)))


def review_pairs(pairs: Sequence[QuestionPair], asker: CachingModel) -> list[QuestionPair]:
    """Drop pairs that a model calls trivial, incomplete or unnatural."""

    def find_reason(verdict: Verdict) -> Reason:
        shares = read_distribution(verdict)
        if isinstance(shares, Failure):
            return "unjudged", str(shares)
        fault = tuple(REVIEW_DROPS.values())[max(range(len(shares)), key=shares.__getitem__)]
        return (fault, "") if fault else None

    prompts: list[Prompt] = []
    for pair in _select_kept(pairs):
        prompts.append(build_prompt("review", {"question": pair.question, "answer": pair.answer}))
    verdicts = ask_verdicts(asker, prompts, tuple(REVIEW_DROPS))
    return _drop_pairs(pairs, map(find_reason, verdicts))


def sift_images(
    pairs: Sequence[QuestionPair], entailment: Entailment, images: Sequence[PromptImage | Failure]
) -> list[QuestionPair]:
    """Drop pairs that the image does not show; ``images`` has one for each pair."""

    def find_reason(result: float | Failure) -> Reason:
        if isinstance(result, Failure):
            return "unjudged", str(result)
        if result < MIN_ENTAILMENT_PROBABILITY:
            return "unentailed", f"probability {result:.2f}"
        return None

    statements: list[tuple[str, PromptImage | Failure]] = []
    for pair, image in zip(pairs, images, strict=True):
        if pair.dropped is None:
            statements.append((f'the answer to "{pair.question}" is "{pair.answer}"', image))
    return _drop_pairs(pairs, map(find_reason, entailment.probabilities(statements)))


def drop_duplicates(
    pairs: Sequence[QuestionPair], encoder: encoders.Encoder, alike: float
) -> list[QuestionPair]:
    """Drop pairs that repeat an earlier kept pair of the same image (after SemDeDup)."""
    left = [place for place, pair in enumerate(pairs) if pair.dropped is None]
    texts = [f"{pairs[place].question} {pairs[place].answer}" for place in left]
    vectors = encoders.unit_vectors(encoder, texts)
    similar = vectors @ vectors.T if left else vectors
    pairs_left, firsts = list(pairs), list[int]()
    for row, place in enumerate(left):
        # Only kept pairs count: along a chain of near-duplicates, comparing with dropped ones would
        # drop pairs that are unlike any kept one.
        same = [earlier for earlier in firsts if similar[row, earlier] >= alike]
        if same:
            first = pairs[left[same[0]]].question
            pairs_left[place] = replace(pairs[place], dropped="duplicate", why=f"of {first!r}")
        else:
            firsts.append(row)
    return pairs_left


MIN_DUPLICATE_SIMILARITY = 0.95
"""Cosine from which on two questions about one image are duplicates."""
NOTHING_TO_ASK = Failure("text", "the caption is empty, or names nothing to ask about")


class PairMaker:
    """A maker of verified questions with answers, from captions.

    Args:
        writer: the model that writes questions, answers and programs (the paper: GPT-4o), as a
            name, a settings file, a mapping, or a ``Model``. It may be text-only.
        reviewer: a model that drops trivial, incomplete and unnatural pairs (the paper: GPT-4o).
            None: only pairs whose answer adds no word to the question are dropped.
        entailment: a vision model that drops pairs that the image does not show.
        tuples: source of scene graphs: "graph" for ours, or a model.
        encoder: finds duplicate questions; see ``Prove``.
        taboo: words that no pair may contain. The paper's list is not published.
        parser: for our scene graphs: "embedded", or an installed spaCy pipeline.
        store: a file (or a ``Store``) that keeps models' answers across runs.
        seconds: processor time of one program.

    Raises:
        InputError: a name is unknown, or the model for entailment does not take images.
        ConfigError: a model's settings are invalid.
    """

    def __init__(
        self,
        writer: str | Mapping[str, Any] | Model,
        reviewer: str | Mapping[str, Any] | Model | None = None,
        entailment: str | Mapping[str, Any] | Model | None = None,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        encoder: str | encoders.Encoder = encoders.EMBEDDED,
        taboo: Sequence[str] = (),
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        seconds: float = 2.0,
    ) -> None:
        if isinstance(taboo, str):
            raise InputError(f"taboo is one string: pass a list of words, [{taboo[:40]!r}]")
        self.store = open_store(store)
        self.writer = CachingModel(resolve_model(writer), self.store)
        self.reviewer = (
            None if reviewer is None else CachingModel(resolve_model(reviewer), self.store)
        )
        self.entailment = load_entailment(entailment, self.store)
        self.tuples: TupleSource = load_tuple_source(tuples, parser, self.store)
        self.encoder = encoders.load_encoder(encoder)
        self.encoder_name = encoders.text_encoder_name(encoder)
        self.taboo = frozenset(map(str.casefold, taboo))
        self.programs = Sandbox(seconds)

    @property
    def signature(self) -> str:
        """``prove-pairs|writer:...|reviewer:...|entailment:...|tuples:...|encoder:...|...``."""
        fields = {
            "writer": self.writer.model.name,
            "reviewer": "none",
            "entailment": "none",
            **self.tuples.fields,
            "encoder": self.encoder_name,
            "wording": WORDING_EDITION,
            "sifting": SIFTING_VERSION,
            "replies": str(READING_VERSION),
        }
        if self.reviewer is not None:
            fields["reviewer"] = self.reviewer.model.name
        if self.entailment is not None:
            fields["entailment"] = self.entailment.asker.model.name
        if self.taboo:
            fields["taboo"] = ",".join(sorted(self.taboo))
        return build_signature("prove-pairs", fields)

    def make(
        self,
        captions: Sequence[str | None],
        images: Sequence[object] | None = None,
        graphs: Sequence[object] | None = None,
    ) -> list[CaptionQuestions]:
        """Return all candidates about each image, kept and dropped, in order.

        Args:
            captions: detailed true descriptions of images.
            images: in any form that ``load_prompt_image`` reads; required with an entailment
                judge, and refused without one.
            graphs: scene graphs or tuples of the captions, such as the authors' own
                (``tuples.read_graph``); captions whose graph is None are parsed.

        Raises:
            InputError: the lists differ in length, or images are missing.
            JudgeError: a model does not work at all.
        """
        columns: dict[str, Sequence[object]] = {"captions": captions}
        if graphs is not None:
            columns["graphs"] = graphs
        texts, *own_graphs = read_inputs(self.entailment, images, **columns)
        questions = self._write_drafts(texts, own_graphs[0] if own_graphs else None)
        flat = [pair for each in questions for pair in each.pairs]
        if self.reviewer is not None:
            flat = review_pairs(flat, self.reviewer)
        if self.entailment is not None and images is not None:
            visible: list[PromptImage | Failure] = []
            for image, each in zip(load_prompt_images(images), questions, strict=True):
                visible += [image] * len(each.pairs)
            flat = sift_images(flat, self.entailment, visible)
        rest = iter(flat)
        made: list[CaptionQuestions] = []
        for each in questions:
            own = list(islice(rest, len(each.pairs)))
            unlike = drop_duplicates(own, self.encoder, MIN_DUPLICATE_SIMILARITY)
            made.append(replace(each, pairs=tuple(unlike)))
        return made

    def close(self) -> None:
        self.programs.close()

    def _write_drafts(
        self, captions: Sequence[str | None], graphs: Sequence[object] | None
    ) -> list[CaptionQuestions]:
        """Ask the writer about each caption; verify by programs and by words."""
        scenes = read_scenes(self.tuples, captions, graphs)
        prompts: dict[int, Prompt] = {}
        for place, nodes in enumerate(scenes):
            if nodes and not isinstance(nodes, Failure):
                caption = str(captions[place] or "").strip()
                prompts[place] = build_writing_prompt(caption, nodes)
        replies = ask_replies(self.writer, list(prompts.values()), MAX_REPLY_TOKENS)
        by_place = dict(zip(prompts, replies, strict=True))
        return [self._read_draft(nodes, by_place.get(place)) for place, nodes in enumerate(scenes)]

    def _read_draft(self, nodes: Nodes | Failure, reply: Reply | None) -> CaptionQuestions:
        if isinstance(nodes, Failure):
            return CaptionQuestions((), nodes.about("the caption"))
        if reply is None:
            return CaptionQuestions((), NOTHING_TO_ASK)
        if reply.text is None:
            return CaptionQuestions((), reply.failure)
        pairs = verify_candidates(read_candidates(reply.text), nodes, self.programs)
        return CaptionQuestions(tuple(sift_words(pairs, self.taboo)))


class PairVerifier:
    """A check of pairs, such as the authors' or edited ones, by their programs, without a model.

    Arguments and errors are those of ``PairMaker``.
    """

    def __init__(
        self,
        tuples: str | Mapping[str, Any] | Model = "graph",
        *,
        parser: str = "embedded",
        store: str | PathLike[str] | Store | None = None,
        seconds: float = 2.0,
    ) -> None:
        self.tuples: TupleSource = load_tuple_source(tuples, parser, open_store(store))
        self.programs = Sandbox(seconds)

    @property
    def signature(self) -> str:
        """``prove-programs|tuples:...|...|sifting:3|version:...``."""
        return build_signature("prove-programs", {**self.tuples.fields, "sifting": SIFTING_VERSION})

    def verify(
        self,
        questions: Sequence[str | None],
        answers: Sequence[str | None],
        programs: Sequence[str | None],
        captions: Sequence[str | None],
        graphs: Sequence[object] | None = None,
    ) -> list[QuestionPair | Failure]:
        """Run each program over its caption's graph, and two others, and compare with the answer.

        All lists have one value per pair; ``graphs`` are as for ``PairMaker.make``. A pair has its
        program's value, and is ``dropped`` if the answer is not verified; it is a failure if the
        caption has no graph. ``InputError`` if the lists differ in length.
        """
        columns: dict[str, Sequence[object]] = {
            "questions": questions,
            "answers": answers,
            "programs": programs,
            "captions": captions,
        }
        if graphs is not None:
            columns["graphs"] = graphs
        asked, answered, run, texts, *own_graphs = as_lists(**columns)
        scenes = read_scenes(self.tuples, texts, own_graphs[0] if own_graphs else None)
        return [self._verify_pair(*each) for each in zip(asked, answered, run, scenes, strict=True)]

    def close(self) -> None:
        self.programs.close()

    def _verify_pair(
        self, question: object, answer: object, program: object, nodes: Nodes | Failure
    ) -> QuestionPair | Failure:
        if isinstance(nodes, Failure):
            return nodes.about("the caption")
        candidate = read_candidate({"question": question, "answer": answer, "program": program})
        # One pair per call: each has its own budget of processor time.
        [pair] = sift_words(verify_candidates([candidate], nodes, self.programs), frozenset())
        return pair
