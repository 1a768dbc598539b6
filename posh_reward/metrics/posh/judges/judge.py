"""Judges and witnesses: protocols, model by prompts, cascade, those by name, and a check of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import fsum
from pathlib import Path
from typing import Any, Literal, Protocol

from posh_reward.datasets.load_dataset import is_drawn
from posh_reward.errors import InputError, JudgeError
from posh_reward.lexicon.function_words import FUNCTION_WORDS, words_of
from posh_reward.metrics.metric import Figures, field_of, mean
from posh_reward.metrics.posh.aggregate import Weights
from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.embedded.embedded_judge import distribution
from posh_reward.metrics.posh.questions import check_preset, prompt, rewrite_prompt
from posh_reward.metrics.posh.search import Pace, checked_grade, pace_of
from posh_reward.models.asker import Asker
from posh_reward.models.model import MODELS, Model, Sleepable, model_settings, not_grades
from posh_reward.settings import ENDINGS, brief, make
from posh_reward.store import Store
from posh_reward.types import LABELS, LOWEST_GRADE, Phrase, Question, Reply, Scores, Usage, Verdict


class Witness(Sleepable, Protocol):
    """A source of answers about images: a judge that sees, or one that knows the drawing.

    A question that the image does not settle is a failure of kind ``reply``, never a guess.
    """

    @property
    def name(self) -> str:
        """Model and revision, for signatures: the same name gives the same answers."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds so far."""

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""

    def close(self) -> None:
        """Release everything; the judge is not used again."""


class Judge(Witness, Protocol):
    """A source of answers about descriptions. A bad question does not affect the others."""

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """A fluent form of each phrase, in order."""


def base_judge(judge: Judge) -> Judge:
    """The judge behind those that pass questions on to their ``judge``, such as a cascade."""
    return stages(judge)[-1]


def stages(judge: Judge) -> list[Judge]:
    """All judges that answer: the first stages of cascades, and the base judge at the end."""
    first_stages: list[Judge] = []
    while hasattr(judge, "judge"):
        first = getattr(judge, "first", None)
        first_stages += [] if first is None else [first]
        judge = judge.judge
    return [*first_stages, judge]


REWRITE_TOKENS = 20  # longest rewrite, in tokens (paper, A.1.4)


class PromptJudge:
    """A judge that asks a model, by prompts; a witness, too, if the model takes images."""

    def __init__(self, model: Model, preset: str = "released", store: Store | None = None) -> None:
        self.model = model
        self.preset = check_preset(preset)
        self._asker = Asker(model, store)

    @property
    def pace(self) -> Pace:
        """Batched for a model that prefers few calls, lazy for one that prefers few tokens."""
        return "batched" if self.model.few_calls else "lazy"

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def usage(self) -> Usage:
        return self.model.usage

    @property
    def store(self) -> Store | None:
        """File that keeps answers, if any."""
        return self._asker.store

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        self.model.usage.images += sum(each.image is not None for each in questions)
        return self._asker.choose([prompt(each, self.preset) for each in questions], LABELS)

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        prompts = [rewrite_prompt(each, self.preset) for each in phrases]
        return self._asker.write(prompts, REWRITE_TOKENS)

    def sleep(self) -> None:
        self.model.sleep()

    def wake(self) -> None:
        self.model.wake()

    def close(self) -> None:
        self.model.close()


Wording = Literal["same", "other", "none"]
"""Content words of a question in its target. same: all of them. none: not one, not even within a
longer word."""

VERBATIM = Verdict(distribution(1.0, len(LABELS)))
ABSENT = Verdict(distribution(0.0, len(LABELS)))


class Cascade:
    """A judge that asks another one only what a first stage cannot settle.

    The embedded judge settles an element as explicit if the target states it in the same words and
    its grade is at least ``high``. It settles an entity as absent if its words are all missing from
    the target and its grade is below ``low``; never attributes and relations, since other words may
    express them. Another judge as ``first`` settles what it answers with at most ``doubt``.

    ``judge`` rewrites the phrases, and its failures stay failures.

    Args:
        judge: answers the rest.
        low: grade, 1 to 5; at 1 nothing is settled as absent.
        high: grade, 1 to 5; above 5 nothing is settled as explicit.
        first: first stage, in place of the embedded judge and its two thresholds.
        doubt: maximum doubt (``doubt_of``) with which ``first`` settles a question; at 2 it
            settles all.

    Raises:
        InputError: ``low`` is not below ``high``, ``doubt`` is below 0, or ``judge`` or ``first``
            is not a judge.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        low: float = 2.25,
        high: float = 4.5,
        first: Judge | None = None,
        doubt: float = 0.5,
    ) -> None:
        if not LOWEST_GRADE <= low < high:
            raise InputError(f"low is {low} and high {high}: low must be at least 1, below high")
        if not doubt >= 0:
            raise InputError(f"doubt is {doubt}: use 0 or more")
        for name, each in (("judge", judge), ("first", first)):
            if not (hasattr(each, "grade") or (name == "first" and each is None)):
                raise InputError(f"{name} is {each!r}: pass a Judge")
        self.judge = judge
        self.first = first
        self.first_answers = 0  # questions that the first stage settled
        self._embedded = EmbeddedJudge()
        self._low, self._high, self._doubt = low, high, doubt

    @property
    def name(self) -> str:
        if self.first is not None:
            return f"cascade-1:doubt-{self._doubt:g}:{self.first.name}+{self.judge.name}"
        return f"cascade-1:{self._low:g}-{self._high:g}:{self._embedded.name}+{self.judge.name}"

    @property
    def usage(self) -> Usage:
        return self.judge.usage if self.first is None else self.first.usage + self.judge.usage

    @property
    def pace(self) -> Pace:
        return pace_of(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        settled = (
            [self._settle(question) for question in questions]
            if self.first is None
            else [self._if_certain(verdict) for verdict in self.first.grade(questions)]
        )
        rest = [q for q, verdict in zip(questions, settled, strict=True) if verdict is None]
        self.first_answers += len(questions) - len(rest)
        answers = iter(self.judge.grade(rest) if rest else ())
        return [verdict or next(answers) for verdict in settled]

    def _if_certain(self, verdict: Verdict) -> Verdict | None:
        checked = checked_grade(verdict)
        return checked if checked.probabilities and doubt_of(checked) <= self._doubt else None

    def _settle(self, question: Question) -> Verdict | None:
        wording = wording_of(question)
        if wording == "other" or (wording == "none" and question.kind != "entity"):
            return None
        grade = checked_grade(self._embedded.grade([question])[0]).grade
        if grade is None:
            return None
        if wording == "same":
            return VERBATIM if grade >= self._high else None
        return ABSENT if grade < self._low else None

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        return self.judge.rewrite(phrases)

    def sleep(self) -> None:
        (self.first or self._embedded).sleep()
        self.judge.sleep()

    def wake(self) -> None:
        (self.first or self._embedded).wake()
        self.judge.wake()

    def close(self) -> None:
        (self.first or self._embedded).close()
        self.judge.close()


def doubt_of(verdict: Verdict) -> float:
    """Standard deviation of the label under a verdict's distribution, 0 to 2."""
    grade = verdict.grade
    if grade is None or verdict.probabilities is None:
        raise InputError("a failed judgment has no doubt: it has no distribution")
    spread = fsum(
        p * (label - grade) ** 2 for label, p in enumerate(verdict.probabilities, start=1)
    )
    return float(max(spread, 0.0) ** 0.5)


def wording_of(question: Question) -> Wording:
    """Compare a question's content words with those of its target."""
    phrase = question.identifier if question.kind == "entity" else question.text or ""
    words = _words(phrase)
    if words and words <= _words(question.target.text):
        return "same"
    text = question.target.text.lower()
    return "other" if not words or any(word in text for word in words) else "none"


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text)) - FUNCTION_WORDS


JUDGES = {
    "embedded": "posh_reward.metrics.posh.judges.embedded:EmbeddedJudge",
    "cascade": "posh_reward.metrics.posh.judges.judge:Cascade",
    "fake": "posh_reward.metrics.posh.judges.fake_judge:FakeJudge",
}
"""Judges that read scene graphs: name -> ``module:class``. Language models are in
``models.model.MODELS``. The ``judge`` of a cascade may be either."""

WITNESSES = {"oracle": "posh_reward.metrics.posh.judges.oracle:Oracle"}
"""Witnesses that do not judge texts. Every model that takes images is a witness, too."""

STAGES = ("judge", "first")  # settings of a cascade that are judges themselves


def load_judge(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Judge:
    """Load a judge by name, settings file or mapping.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}`` with
            the arguments of that judge's class.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the name is unknown; the message lists the known ones. Or the settings name
            another preset, the only one that the judge was trained on.
        ConfigError: the settings have a value that cannot be used.
    """
    options = _settings(which, (*JUDGES, *MODELS), "judge")
    _check_preset(options, preset, which)
    if options["name"] == "cascade":
        stages = [stage for stage in STAGES if options.get(stage)]
        options |= {stage: load_judge(options[stage], preset, store) for stage in stages}
    if options["name"] in JUDGES:
        judge: Judge = make(JUDGES, options, "judge")
        return judge
    return PromptJudge(make(MODELS, options, "judge"), preset, store)


def _check_preset(options: dict[str, Any], preset: str, which: object) -> None:
    """Take the preset out of a judge's settings; refuse it unless it is the metric's."""
    learned = options.pop("preset", preset)
    if learned != preset:
        raise InputError(
            f"{brief(which)} has learned the wording of preset {brief(learned)}, not of {preset!r}:"
            f" set preset to {brief(learned)}"
        )


def _settings(which: object, names: Sequence[str], role: str) -> dict[str, Any]:
    """Return ``model_settings``; find the stages of a cascade's file in its own folder.

    So the folder of a distilled judge can be moved as a whole.
    """
    options = model_settings(which, names, role)
    if options["name"] == "cascade" and isinstance(which, str):
        for stage in STAGES:
            name = options.get(stage)
            if isinstance(name, str) and name.lower().endswith(ENDINGS):
                file = Path(which).parent / name
                options[stage] = str(file) if file.is_file() else name
    return options


def load_witness(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Witness:
    """Load a witness by name, settings file or mapping.

    Args:
        which: as for ``load_judge``, for the oracle or a model that takes images; or the name of
            drawn images, such as "scenes:train=2000:plain=1", for the oracle that knows them.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the name is unknown, or the model does not take images.
        ConfigError: the settings have a value that cannot be used.
    """
    if is_drawn(which):
        which = {"name": "oracle", "dataset": which}
    options = model_settings(which, (*WITNESSES, *MODELS), "witness")
    _check_preset(options, preset, which)
    if options["name"] in WITNESSES:
        witness: Witness = make(WITNESSES, options, "witness")
        return witness
    return PromptJudge(make(MODELS, options, "witness"), preset, store)


def engine_settings(which: object, role: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the role and the settings of each language model behind a judge or a witness.

    A cascade may have two, the "judge" and the "first judge".
    """
    if which in (None, "judge") or is_drawn(which):
        return []
    options = _settings(which, (*JUDGES, *WITNESSES, *MODELS), role)
    if options["name"] == "cascade":
        roles = {"judge": role, "first": f"first {role}"}
        return [
            each for stage in STAGES for each in engine_settings(options.get(stage), roles[stage])
        ]
    return [(role, options)] if options["name"] in MODELS else []


def witness_of(
    which: str | Mapping[str, Any] | Witness, judge: Judge, preset: str, store: Store | None
) -> Witness:
    """Return a witness that was passed in, or load one by name; "judge" stands for ``judge``."""
    witness: Witness
    if which == "judge":
        witness = judge
    else:
        witness = load_witness(which, preset, store) if isinstance(which, str | Mapping) else which
    if not hasattr(witness, "grade"):
        raise InputError(f"witness is {witness!r}: pass a name, a settings file or a Witness")
    blind = isinstance(witness, PromptJudge) and not witness.model.sees
    if blind or isinstance(witness, EmbeddedJudge | Cascade):
        raise InputError(
            f"the witness {witness.name!r} does not take images: name a model that sees"
        )
    return witness


def check_prompts_match(judge: PromptJudge, preset: str, store: Store | None) -> None:
    """Check that a judge uses the metric's preset and store."""
    if judge.preset != preset:
        raise InputError(
            f"the judge asks by preset {judge.preset!r}, the metric by {preset!r}: use the same"
        )
    if store is not None and judge.store is None:
        raise InputError(
            "the judge was made without the store, so its answers would not be kept: pass the "
            "store to PromptJudge as well"
        )


PROBES = ("A man in a red coat holds a small dog.", "Two ships sail under a dark sky.")
"""Texts of which each supports itself and nothing of the other."""
LEAST_GAP = 0.15
"""Least distance of identical texts' scores above those of unrelated ones; scores are 0.2 to 1.
SmolLM2-135M reaches 0.04."""
NOT_CHECKED = "the judge is not checked: its grades may mean nothing"
"""Said of a run, or of a trial of one, with ``check_judge: false``: it measures time and memory."""


class PoshLike(Figures[Scores], Protocol):
    """The part of POSH that a reward needs: ``PoSh``, or a server's ``serve.client.RemotePosh``."""

    @property
    def weights(self) -> Weights:
        """Weights of entities, attributes and relations."""

    @property
    def witness(self) -> object:
        """The witness, if it is in this process."""

    @property
    def wants_images(self) -> bool:
        """True with a witness."""

    def score(self, *columns: Any, **by_field: Any) -> list[Scores]:
        """Score generations against references and, with a witness, images."""


def check_judge(metric: PoshLike) -> None:
    """Score two texts against themselves and each other, with each judge of a cascade.

    A witness may raise precision, so with one only recall is compared.

    Raises:
        JudgeError: a pair has no score, most replies are not grades, or identical texts do not
            score clearly above unrelated ones; the message has the remedy.
    """
    columns: list[Sequence[object]] = [PROBES * 2, PROBES + PROBES[::-1]]
    if metric.wants_images:
        columns.append([_image_for(metric.witness)] * len(columns[0]))
    alone = getattr(metric, "with_each_judge", None)
    for each in alone() if alone is not None else [metric]:
        scores = each.score(*columns)
        reason = unfit(scores[:2], scores[2:], recall_only=metric.wants_images)
        if reason is not None:
            raise JudgeError(f"the judge {field_of(each.signature, 'judge')} {reason}")


def unfit(
    identical: Sequence[Scores], unrelated: Sequence[Scores], *, recall_only: bool = False
) -> str | None:
    """Give the reason why a judge with these scores cannot judge; None if it can."""
    for score in (*identical, *unrelated):
        if score.failure is not None:
            return f"could not score a first pair: {score.failure}"
    doubtful = mean([score.doubtful_share for score in (*identical, *unrelated)])
    if (reason := not_grades(doubtful)) is not None:
        return reason
    axes = ("recall",) if recall_only else ("precision", "recall")
    high, low = (
        mean([getattr(score, axis) for score in scores for axis in axes])
        for scores in (identical, unrelated)
    )
    if high - low >= LEAST_GAP:
        return None
    return (
        f"does not tell texts apart: identical ones score {high:.2f}, unrelated ones {low:.2f}. "
        "Is it instruction-tuned, and large enough? 135 million parameters are not, 1.5 billion "
        "barely (docs/local_judge.md)"
    )


def _image_for(witness: object) -> object:
    # An oracle knows only its own drawings; any other witness can look at a blank.
    from PIL import Image

    from posh_reward.metrics.posh.judges.oracle import Oracle

    if isinstance(witness, Oracle):
        return witness.an_image()
    return Image.new("RGB", (168, 112), "white")
