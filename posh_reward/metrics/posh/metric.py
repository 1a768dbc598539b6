"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.graph.coref import Coreferencer
from posh_reward.graph.read import MAX_CHARACTERS, Reader
from posh_reward.graph.serialise import READING_VERSION
from posh_reward.metrics.posh.aggregate import EQUAL, Weights, harmonic_mean, mean_score, weights_of
from posh_reward.metrics.posh.collector import patient_collector
from posh_reward.metrics.posh.examine import Examination, examine
from posh_reward.metrics.posh.figures import columns, figures
from posh_reward.metrics.posh.judges.cascade import Cascade
from posh_reward.metrics.posh.judges.judge import Judge, pace_of
from posh_reward.metrics.posh.judges.load import load_judge
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from posh_reward.metrics.posh.lockstep import Rewriter, run_together
from posh_reward.metrics.posh.presets import PRESET, check_preset
from posh_reward.metrics.posh.questions import ASKING_VERSION, PRESENT
from posh_reward.metrics.signature import signature
from posh_reward.models.ask import READING_VERSION as REPLY_VERSION
from posh_reward.store import Store
from posh_reward.types import Description, Failure, Scores, Usage


class PoSh:
    """The metric. Loads what it needs on first use, and keeps it.

    Args:
        judge: a name ("embedded"), a settings file or a mapping (``judges.load``), or a
            ``Judge``. The embedded default needs no download; its scores are not POSH's
            published ones.
        parser: "embedded", or an installed spaCy pipeline (the paper: "en_core_web_trf").
        coref: a name ("rules", "none") or a ``Coreferencer``.
        preset: wording of the questions to LLM judges, and whether scene graphs are mended;
            see ``presets.PRESET``.
        weights: how much entities, attributes and relations count in the means; a mapping such
            as ``{"relation": 0.5}`` leaves the others at 1.
        store: a file (or a ``Store``) that keeps scene graphs and language models' answers
            across runs and processes.
        max_characters: a longer text fails its pair.
        pairs_at_once: how many pairs share each call to the judge; bounds memory.

    Raises:
        InputError: a name is unknown, a size is below 1, or the judge that was passed in does
            not go with the preset or the store.
        ConfigError: settings of the judge or the weights cannot be used.
    """

    def __init__(
        self,
        judge: str | Mapping[str, Any] | Judge = "embedded",
        parser: str = "embedded",
        coref: str | Coreferencer = "rules",
        preset: str = "released",
        *,
        weights: Weights | Mapping[str, float] = EQUAL,
        store: str | PathLike[str] | Store | None = None,
        max_characters: int = MAX_CHARACTERS,
        pairs_at_once: int = 256,
    ) -> None:
        _check_sizes(max_characters=max_characters, pairs_at_once=pairs_at_once)
        self.preset = check_preset(preset)
        mended = PRESET[preset].mended
        self.store = Store(store) if isinstance(store, str | PathLike) else store
        self.reader = Reader(
            parser, coref, mended=mended, max_characters=max_characters, store=self.store
        )
        self.judge: Judge = (
            load_judge(judge, preset, self.store) if isinstance(judge, str | Mapping) else judge
        )
        if not hasattr(self.judge, "grade"):
            raise InputError(f"judge is {judge!r}: give a name, a settings file or a Judge")
        asked = self.judge.judge if isinstance(self.judge, Cascade) else self.judge
        self._prompted = isinstance(asked, PromptJudge)
        if isinstance(asked, PromptJudge):
            _check_prompted(asked, preset, self.store)
        self.weights = weights_of(weights)
        self._pairs_at_once = pairs_at_once
        self._rewriter = Rewriter(self.judge)

    name = "posh"
    """First word of signatures, and what names in logs begin with."""

    @property
    def signature(self) -> str:
        """``posh|preset:released|judge:...|parser:...|coref:...|rules:2.2|present:2|version:...``."""
        edition = PRESET[self.preset].edition
        fields = {
            "preset": self.preset,
            **({"wording": str(edition)} if edition > 1 else {}),
            "judge": self.judge.name,
            **({"replies": str(REPLY_VERSION)} if self._prompted else {}),
            "parser": self.reader.parser_name,
            "coref": self.reader.coref.name,
            "rules": f"{READING_VERSION}.{ASKING_VERSION}",
            "present": f"{PRESENT:g}",
        }
        if self.weights != EQUAL:
            fields["weights"] = ",".join(f"{weight:g}" for weight in astuple(self.weights))
        return signature(self.name, fields)

    @property
    def usage(self) -> Usage:
        """What the judge has been asked so far."""
        return self.judge.usage

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        """What a training log shows of one call; see ``figures.FIGURES``."""
        return figures(scores)

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        """What a training log shows of each completion; see ``figures.COLUMNS``."""
        return columns(scores)

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None]
    ) -> list[Scores]:
        """Scores each generation against its reference, in order.

        A pair that cannot be scored has ``None`` scores and a ``failure``; it never touches
        its neighbours. Equal pairs are judged once.

        What cannot be scored is decided here alone: a text that is missing (None, NaN), is not a
        string, is too long or cannot be parsed, and an empty reference. An empty generation, or
        one of white space, is scored as the release does: precision 1, since it makes no mistake,
        and the recall that the judge finds. Its ``count("precision")`` is 0, by which the reward
        knows it and gives it the worst.

        Args:
            generations: descriptions to be scored.
            references: what each is scored against; as many as ``generations``.

        Raises:
            InputError: the two lists differ in length, or one is a bare string.
            JudgeError: the judge cannot work at all.
        """
        _check_lists(generations, references)
        pairs = list(zip(generations, references, strict=True))
        distinct = list(dict.fromkeys(pair for pair in pairs if _hashable(pair)))
        scored: dict[object, Scores] = {}
        with patient_collector():
            for start in range(0, len(distinct), self._pairs_at_once):
                chunk = distinct[start : start + self._pairs_at_once]
                scored.update(zip(chunk, self._score_chunk(chunk), strict=True))
        return [scored[pair] if _hashable(pair) else self._score_chunk([pair])[0] for pair in pairs]

    def _score_chunk(self, pairs: list[tuple[str | None, str | None]]) -> list[Scores]:
        generations = self._read([generation for generation, _ in pairs])
        references = self._read([reference for _, reference in pairs], keep=True)
        sound = [_sound(g, r) for g, r in zip(generations, references, strict=True)]
        examined = self._examine([pair for pair in sound if pair is not None])
        return [
            Scores.failed(_why_unscorable(generation, reference), self.signature)
            if pair is None
            else self._scores(*pair, *next(examined))
            for pair, generation, reference in zip(sound, generations, references, strict=True)
        ]

    def _read(
        self, texts: Sequence[str | None], *, keep: bool = False
    ) -> list[Description | Failure]:
        """A description of each text, which knows the text as it was given."""
        return [
            replace(read, given=text)
            if isinstance(read, Description) and read.text != text
            else read
            for read, text in zip(self.reader.read(texts, keep=keep), texts, strict=True)
        ]

    def _examine(
        self, pairs: list[tuple[Description, Description]]
    ) -> Iterator[tuple[Examination, Examination]]:
        """(precision, recall) of each pair; the judge is awake only meanwhile."""
        if not pairs:
            return iter(())
        mended = PRESET[self.preset].mended
        self.judge.wake()
        try:
            pace = pace_of(self.judge)
            steps = [
                examination
                for generation, reference in pairs
                for examination in (
                    examine(generation, reference, "precision", pace=pace, mended=mended),
                    examine(reference, generation, "recall", pace=pace, mended=mended),
                )
            ]
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


def _check_prompted(judge: PromptJudge, preset: str, store: Store | None) -> None:
    """A judge that was passed in, ready made, has to go with the metric's preset and store."""
    if judge.preset != preset:
        raise InputError(
            f"the judge asks by preset {judge.preset!r}, the metric by {preset!r}: use the same"
        )
    if store is not None and judge.store is None:
        raise InputError(
            "the judge was made without the store, so its answers would not be kept: pass the "
            "store to PromptJudge as well"
        )


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} is {size}: give a number from 1")


def _check_lists(generations: Sequence[object], references: Sequence[object]) -> None:
    for name, texts in (("generations", generations), ("references", references)):
        if isinstance(texts, str | bytes):
            raise InputError(f"{name} is one string: pass a list of texts, [{texts[:40]!r}]")
    if len(generations) != len(references):
        raise InputError(
            f"{len(generations)} generations but {len(references)} references: "
            "pass one reference for each generation"
        )


def _sound(
    generation: Description | Failure, reference: Description | Failure
) -> tuple[Description, Description] | None:
    """The pair, if it can be examined: an empty reference says nothing to compare with."""
    if isinstance(generation, Failure) or isinstance(reference, Failure):
        return None
    return (generation, reference) if reference.text else None


def _why_unscorable(generation: Description | Failure, reference: Description | Failure) -> Failure:
    for name, text in (("reference", reference), ("generation", generation)):
        if isinstance(text, Failure):
            return replace(text, detail=f"the {name} {text.detail}")
    return Failure("text", "the reference is empty")


def _hashable(pair: tuple[object, object]) -> bool:
    return all(isinstance(text, str) for text in pair)
