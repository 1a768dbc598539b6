"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.graph.coref import Coreferencer
from posh_reward.graph.read import MAX_CHARACTERS, Reader, Unreadable
from posh_reward.judge.base import Judge
from posh_reward.judge.llm.judge import PromptJudge
from posh_reward.judge.load import load_judge
from posh_reward.judge.render import PRESET, check_preset
from posh_reward.metric.aggregate import EQUAL, Weights, harmonic_mean, mean_score
from posh_reward.metric.collector import patient_collector
from posh_reward.metric.examine import Examination, examine
from posh_reward.metric.lockstep import Rewriter, run_together
from posh_reward.metric.signature import signature
from posh_reward.store import Store
from posh_reward.types import Description, Scores


class PoSh:
    """The metric. Loads what it needs on first use, and keeps it.

    Args:
        judge: a name ("embedded"), a settings file or a mapping (``judge.load``), or a
            ``Judge``. The embedded default needs no download; its scores are not POSH's
            published ones.
        parser: "embedded", or an installed spaCy pipeline (the paper: "en_core_web_trf").
        coref: a name ("rules", "none") or a ``Coreferencer``.
        preset: wording of the questions to LLM judges, and whether scene graphs are mended;
            see ``judge.render.PRESET``.
        weights: how much entities, attributes and relations count in the means.
        store: a file (or a ``Store``) that keeps scene graphs and language models' answers
            across runs and processes.
        max_characters: a longer text fails its pair.
        pairs_at_once: how many pairs share each call to the judge; bounds memory.

    Raises:
        InputError: a name is unknown, or the judge asks by another preset.
        ConfigError: the judge's settings have a value that cannot be used.
    """

    def __init__(
        self,
        judge: str | Mapping[str, Any] | Judge = "embedded",
        parser: str = "embedded",
        coref: str | Coreferencer = "rules",
        preset: str = "released",
        *,
        weights: Weights = EQUAL,
        store: str | PathLike[str] | Store | None = None,
        max_characters: int = MAX_CHARACTERS,
        pairs_at_once: int = 256,
    ) -> None:
        self.preset = check_preset(preset)
        mended = PRESET[preset].mended
        self.store = Store(store) if isinstance(store, str | PathLike) else store
        self.reader = Reader(
            parser, coref, mended=mended, max_characters=max_characters, store=self.store
        )
        self.judge: Judge = (
            load_judge(judge, preset, self.store) if isinstance(judge, str | Mapping) else judge
        )
        if isinstance(self.judge, PromptJudge):
            _check_preset(self.judge, preset)
            if self.store is not None:
                self.judge.keep_in(self.store)
        self.weights = weights
        self._pairs_at_once = pairs_at_once
        self._rewriter = Rewriter(self.judge)

    @property
    def signature(self) -> str:
        """What every score of this metric carries."""
        return signature(
            self.preset,
            self.judge.name,
            self.reader.parser_name,
            self.reader.coref.name,
            self.weights,
        )

    def score(
        self, generations: Sequence[str], references: Sequence[str], *, progress: bool = False
    ) -> list[Scores]:
        """Scores each generation against its reference, in order.

        A pair that cannot be scored has ``None`` scores and a ``failure``; it never touches
        its neighbours. Equal pairs are judged once.

        Args:
            generations: descriptions to be scored.
            references: what each is scored against; as many as ``generations``.
            progress: show a bar on standard error.

        Raises:
            InputError: the two lists differ in length, or one is a bare string.
            JudgeError: the judge cannot work at all.
        """
        _check_lists(generations, references)
        pairs = list(zip(generations, references, strict=True))
        distinct = list(dict.fromkeys(pair for pair in pairs if _hashable(pair)))
        scored: dict[object, Scores] = {}
        with patient_collector():
            for chunk in _chunks(distinct, self._pairs_at_once, progress):
                scored.update(zip(chunk, self._score_chunk(chunk), strict=True))
        return [scored[pair] if _hashable(pair) else self._score_chunk([pair])[0] for pair in pairs]

    def _score_chunk(self, pairs: list[tuple[str, str]]) -> list[Scores]:
        generations = self.reader.read([generation for generation, _ in pairs])
        references = self.reader.read([reference for _, reference in pairs], keep=True)
        sound = [_sound(g, r) for g, r in zip(generations, references, strict=True)]
        examined = self._examine([pair for pair in sound if pair is not None])
        return [
            self._failed(_why_unreadable(generation, reference))
            if pair is None
            else self._scores(*pair, *next(examined))
            for pair, generation, reference in zip(sound, generations, references, strict=True)
        ]

    def _examine(
        self, pairs: list[tuple[Description, Description]]
    ) -> Iterator[tuple[Examination, Examination]]:
        """(precision, recall) of each pair; the judge is awake only meanwhile."""
        if not pairs:
            return iter(())
        steps = [
            examination
            for generation, reference in pairs
            for examination in (
                examine(generation, reference, "precision"),
                examine(reference, generation, "recall"),
            )
        ]
        self.judge.wake()
        try:
            results = run_together(steps, self.judge, self._rewriter)
        finally:
            self.judge.sleep()
        return zip(results[::2], results[1::2], strict=True)

    def _scores(
        self,
        generation: Description,
        reference: Description,
        precision: Examination,
        recall: Examination,
    ) -> Scores:
        mistakes = mean_score(precision.elements, self.weights)
        omissions = mean_score(recall.elements, self.weights)
        return Scores(
            precision=mistakes,
            recall=omissions,
            f1=harmonic_mean(mistakes, omissions),
            signature=self.signature,
            elements=precision.elements + recall.elements,
            failure=precision.failure or recall.failure,
            unparsed=precision.unparsed + recall.unparsed,
            generation=generation.text,
            reference=reference.text,
        )

    def _failed(self, reason: str) -> Scores:
        return Scores(None, None, None, self.signature, failure=reason)


def _check_preset(judge: PromptJudge, preset: str) -> None:
    if judge.preset != preset:
        raise InputError(
            f"the judge asks by preset {judge.preset!r}, the metric by {preset!r}: give both one"
        )


def _check_lists(generations: Sequence[str], references: Sequence[str]) -> None:
    for name, texts in (("generations", generations), ("references", references)):
        if isinstance(texts, str | bytes):
            raise InputError(f"{name} is one string: pass a list of texts, [{texts[:40]!r}]")
    if len(generations) != len(references):
        raise InputError(
            f"{len(generations)} generations but {len(references)} references: "
            "pass one reference for each generation"
        )


def _sound(
    generation: Description | Unreadable, reference: Description | Unreadable
) -> tuple[Description, Description] | None:
    """The pair, if it can be examined: with an empty reference there is nothing to go by."""
    if isinstance(generation, Unreadable) or isinstance(reference, Unreadable):
        return None
    return (generation, reference) if reference.text else None


def _why_unreadable(
    generation: Description | Unreadable, reference: Description | Unreadable
) -> str:
    for name, text in (("reference", reference), ("generation", generation)):
        if isinstance(text, Unreadable):
            return f"the {name} {text.reason}"
    return "the reference is empty"


def _hashable(pair: tuple[object, object]) -> bool:
    return all(isinstance(text, str) for text in pair)


def _chunks(
    pairs: list[tuple[str, str]], size: int, progress: bool
) -> Iterator[list[tuple[str, str]]]:
    """Slices of at most ``size`` pairs; the bar moves as each has been dealt with."""
    from tqdm import tqdm

    with tqdm(total=len(pairs), desc="POSH", unit="pair", disable=not progress) as bar:
        for start in range(0, len(pairs), size):
            chunk = pairs[start : start + size]
            yield chunk
            bar.update(len(chunk))
