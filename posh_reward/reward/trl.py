"""Rewards for TRL: completions -> texts -> scores -> rewards.

GRPOTrainer of TRL 1.16 passes the prompts, the completions, and every column of the dataset, with
one value per completion (``grpo_trainer.py:1580-1630``). It expects a number per completion, and
skips those for which every function returns ``None`` (``grpo_trainer.py:2756``).
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from posh_reward.errors import ConfigError, InputError, JudgeError, PoshError
from posh_reward.metrics.metric import Figures, MetricResult, check_sizes
from posh_reward.posh.load_metric import load_reward_metric
from posh_reward.posh.posh import PoSh
from posh_reward.reward.columns import get_column, get_image_column
from posh_reward.reward.completion_log import (
    build_detail_columns,
    build_row_columns,
    keep_training_log,
    wants_details,
)
from posh_reward.reward.guards import list_active_guards
from posh_reward.reward.objectives import Rewards, check_shared, find_trainer, together
from posh_reward.reward.shaping import (
    MAX_UNREPORTED_LOSS,
    REWARD_VERSION,
    SCORE_AXES,
    GuardedScores,
    Shaping,
    guard_scores,
    is_lowered,
    shape_axes,
    shape_reward,
)
from posh_reward.reward.texts import clean_completion, clean_reference, repeated_share
from posh_reward.settings import shorten
from posh_reward.types import Failure, Scores, Usage

if TYPE_CHECKING:
    from posh_reward.posh.check import PoshLike

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=MetricResult)
LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[Any]], None]

CALL_FIGURES = (
    "words", "repeated_share", "failed_share", "seconds",
    "judge_requests", "judge_cached_share", "judge_doubtful_share",
)  # fmt: skip
"""Figures of each call, logged after the metric's own: mean words of a text, mean share of its
four-word sequences that repeat an earlier one, share of completions without a score, seconds of
scoring, number of questions and rewrites, share of them answered from a cache, and share of them
whose reply was mostly not a grade."""


WITHHELD_COLUMNS = ("prompt", "completion", "completion_ids")
"""Columns that TRL keeps from rewards (``grpo_trainer.py:1586``)."""


class FailureLimit:
    """Limit of calls in a row in which over half of the completions failed.

    Most, not all: with a judge that answers one question in twenty, a run would otherwise train to
    its end on the few completions that happened to get a score.

    Raises:
        InputError: the limit is not a whole number of at least 1.
    """

    stop_reason: Failure | None
    """Reason to stop the run; None as long as there is none."""
    judged: int
    """Completions with a score in this run's calls, without those while ``evaluating``."""
    failed: int
    """Completions without one, likewise."""
    evaluating: bool
    """True while calls are an evaluation's, which neither moves the weights nor ends the run."""

    def __init__(self, max_failed_calls: int) -> None:
        check_sizes(max_failed_calls=max_failed_calls)
        self.max_failed_calls = max_failed_calls
        self.begin()

    def begin(self, *, supervised: bool = False) -> None:
        """Begin a run: forget earlier failures.

        If ``supervised``, something else (``StopWithCheckpoint``) stops the run once
        ``stop_reason`` is set; otherwise ``note`` raises.
        """
        self.stop_reason = None
        self.judged = self.failed = 0
        self.evaluating = False
        self._supervised = supervised
        self._failed_calls = 0

    @property
    def stopping(self) -> bool:
        """True if the run is about to stop, so that no more questions are needed."""
        return self._supervised and self.stop_reason is not None

    def note(self, failures: Sequence[Failure | None]) -> None:
        """Count one call, and log the reasons for its failures."""
        reasons = Counter(str(failure) for failure in failures if failure is not None)
        failed = sum(reasons.values())
        if reasons:
            summary = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
            logger.warning(
                "%d of %d completions have no reward: %s", failed, len(failures), summary
            )
        if self.evaluating:
            return
        self.judged += len(failures) - failed
        self.failed += failed
        if 2 * failed > len(failures):
            self._failed_calls += 1
        else:
            self._failed_calls = 0  # in a row: one call that mostly worked resets the count
        if self._failed_calls < self.max_failed_calls:
            return
        self.stop_reason = self.stop_reason or Failure(
            "engine",
            f"most completions could not be judged in {self._failed_calls} calls in a row; "
            f"the last reason: {reasons.most_common(1)[0][0]}. Fix that and resume from the last "
            "checkpoint, or raise max_failed_calls",
        )
        if not self._supervised:
            raise JudgeError(str(self.stop_reason))


class MetricReward(ABC, Generic[T]):
    """A reward function for ``GRPOTrainer(reward_funcs=...)`` on one metric; higher is better.

    A completion that cannot be judged gets ``None``, so TRL leaves it out of its group. The object
    pickles, without what it has loaded or cached.

    A judge that is gone for good must end the run. Alone, this object can only raise, on one rank:
    with ``training.stopping.StopWithCheckpoint``, all ranks stop together, with a checkpoint.

    A subclass names its metric, reads the columns that it needs, and turns scores into rewards.
    """

    __name__: str
    """Name of the reward in TRL's logs; each subclass has its own."""
    metric: Figures[T]
    """The metric that scores the texts."""
    reference_column = "reference"
    """Column for the answer, label or target of frameworks that have only one such field."""

    _silent = False  # warned that the trainer logs nothing
    _evaluates = False  # the last call was an evaluation's
    observer: Callable[[Sequence[T]], None] | None = None
    """Called with the scores behind each call's rewards, in the order of the completions. Set it
    around a call, as ``training.dapo`` does: no score is stored, so none can be stale."""

    def __init__(self, max_failed_calls: int = 10) -> None:
        self.failures = FailureLimit(max_failed_calls)

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Names of a score's rewards with their weights; None leaves a weight to the trainer."""
        return {self.__name__: None}

    @abstractmethod
    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any] | None, ...]:
        """Read the columns that ``_score`` needs; None for a missing optional one."""

    @abstractmethod
    def _score(self, texts: list[Any], *columns: Any) -> list[T]:
        """Score texts against the columns."""

    @abstractmethod
    def _failed(self, why: Failure) -> T:
        """Make the record of a text without a score."""

    @abstractmethod
    def _rewards(self, score: T) -> tuple[float | None, ...]:
        """Turn a score into one reward per objective."""

    def _build_guard_figures(self, scores: Sequence[T]) -> dict[str, float]:
        """Figures of what the reward's own rules did."""
        return {}

    def _build_detail_columns(self, scores: Sequence[T], *columns: Any) -> dict[str, list[Any]]:
        """Columns of what was found in each text, for the log of completions."""
        return {}

    @property
    def signature(self) -> str:
        """Everything that the scores depend on."""
        return self.metric.signature

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] = (),
        *,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> Rewards:
        """Return one reward per completion, 0.2 to 1; None where judging failed.

        Args:
            prompts: unused; part of TRL's contract.
            completions: strings, or conversations whose assistant turns are the text.
                Thoughts in ``<think>`` tags are not scored.
            log_metric: TRL's; called with the names of ``build_call_figures`` at every call on
                every rank.
            log_extra: TRL's; called with the names of ``build_call_columns`` and
                of ``completion_log`` likewise.
            columns: the dataset's columns.

        Raises:
            ConfigError: the reward has several objectives, or the trainer has other reward
                functions: use ``functions`` for both.
            InputError: a column is missing or has a different length.
            JudgeError: most completions failed in ``max_failed_calls`` calls in a row, and
                there is no ``StopWithCheckpoint`` to stop the run.
        """
        if log_metric is None and columns.get("trainer_state") is not None:
            self._warn_of_silence()
        check_shared(find_trainer(log_metric), lambda function: function is self)
        if len(self.objectives) > 1:
            raise ConfigError(
                f"this reward is {len(self.objectives)} rewards ({', '.join(self.objectives)}): "
                "set reward_funcs=reward.functions()"
            )
        batch = self.batch(completions, columns)
        [rewards] = self.rewards(
            *batch, log_metric=log_metric, log_extra=log_extra, trl_columns=columns
        ).values()
        return rewards

    def rewards(
        self,
        texts: list[Any],
        *columns: Any,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        trl_columns: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Rewards]:
        """Return the rewards of a ``batch`` by objective; log figures and count failures.

        ``trl_columns`` are all that TRL passed, some of which are logged.
        """
        before, begun = replace(self.metric.usage), time.perf_counter()
        scores = self.scores(texts, *columns)
        if log_metric is not None:
            seconds = time.perf_counter() - begun
            figures = build_call_figures(self.metric, scores, texts, before, seconds)
            figures |= self._build_guard_figures(scores)
            for name, value in figures.items():
                log_metric(name, value)
        if log_extra is not None:
            trainer = find_trainer(log_metric)
            more = build_row_columns(trl_columns, trainer, len(scores))
            self._keep_log(trainer, evaluates="eval" in more["mode"])
            if wants_details(trainer):
                more |= self._build_detail_columns(scores, *columns)
            for name, values in build_call_columns(self.metric, scores).items():
                log_extra(name, values)
            for name, values in more.items():
                log_extra(f"{self.metric.name}_{name}", values)
        self.failures.note([score.failure for score in scores])
        return self.rewards_of(scores)

    def _keep_log(self, trainer: Any, *, evaluates: bool) -> None:
        """Keep what the step has logged, once for each evaluation, which has many calls."""
        if evaluates and not self._evaluates:
            keep_training_log(trainer)
        self._evaluates = evaluates

    def _warn_of_silence(self) -> None:
        if not self._silent:
            self._silent = True
            logger.warning(
                "this trainer passes rewards no log_metric, so neither the scores are logged nor "
                "is it checked that its other reward functions fail where the judge does"
            )

    def batch(
        self, completions: Sequence[object], columns: Mapping[str, Any], *, raw: bool = False
    ) -> tuple[Any, ...]:
        """Return the texts of completions, and the columns that they are scored against.

        Both sides are read alike, without markup. ``raw`` keeps them as they are, to evaluate with
        the metric as published.
        """
        if isinstance(completions, str):
            raise InputError(
                f"completions is one text, {shorten(completions)}: pass a list of them"
            )
        if raw:
            return (list(completions), *self._columns(columns, len(completions)))
        if isinstance(references := columns.get(self.reference_column), Iterable):
            read = [clean_reference(each) for each in references]
            columns = {**columns, self.reference_column: read}
        texts = [clean_completion(each) for each in completions]
        return (texts, *self._columns(columns, len(texts)))

    def scores(self, texts: list[Any], *columns: Any) -> list[T]:
        """Score a ``batch``; failures are in their places."""
        why = self.failures.stop_reason if self.failures.stopping else None
        scores: list[T] = []
        try:
            if why is None:
                scores = self._score(texts, *columns)
        except JudgeError as error:
            why = Failure("engine", f"the judge could not work: {error}")
        except PoshError:
            raise  # the caller's mistake, on all ranks alike
        except Exception as error:
            logger.exception("scoring raised; this call has no rewards")
            why = Failure("error", f"scoring raised {type(error).__name__}: {error}")
        if why is not None:  # if this rank raised, the others would wait in their next collective
            scores = [self._failed(why) for _ in texts]
        if self.observer is not None:
            self.observer(scores)
        return scores

    def rewards_of(self, scores: Sequence[T]) -> dict[str, Rewards]:
        """Turn scores into rewards by objective."""
        rows = [self._rewards(score) for score in scores]  # completions x objectives
        return {name: [row[at] for row in rows] for at, name in enumerate(self.objectives)}

    def functions(self, *others: Callable[..., Any]) -> list[Callable[..., Any]]:
        """Make ``reward_funcs``: this object, or one function per objective, and ``others``.

        They share one scoring call, and a completion that cannot be judged gets ``None`` from all.
        ``others`` are reward functions of your own, such as one that pays for brevity.

        Raises:
            ConfigError: two have the same name, or one is a model or its name.
        """
        if not others and len(self.objectives) == 1:
            return [self]
        return together(self, *others)


def build_call_figures(
    metric: Figures[T], scores: Sequence[T], texts: Sequence[object], before: Usage, seconds: float
) -> dict[str, float]:
    """Return the figures of one call, such as ``posh/precision``: the same names at every call.

    ``before`` is the judge's running total at the beginning of the call.
    """
    strings = [text for text in texts if isinstance(text, str)]
    failed = sum(score.failure is not None for score in scores)
    now = metric.usage
    requests = now.requests + now.rewrites - before.requests - before.rewrites
    of_the_call = (
        divide_or_nan(sum(len(text.split()) for text in strings), len(strings)),
        divide_or_nan(math.fsum(map(repeated_share, strings)), len(strings)),
        divide_or_nan(failed, len(scores)),
        seconds,
        float(requests),
        divide_or_nan(now.cache_hits - before.cache_hits, requests),
        divide_or_nan(now.doubtful - before.doubtful, requests),
    )
    values = {**metric.figures(scores), **dict(zip(CALL_FIGURES, of_the_call, strict=True))}
    return {f"{metric.name}/{name}": value for name, value in values.items()}


def build_figure_columns(metric: Figures[T], scores: Sequence[T]) -> dict[str, list[float | None]]:
    """Return a column per figure, such as ``posh_f1``."""
    return {f"{metric.name}_{name}": values for name, values in metric.columns(scores).items()}


def list_figure_names(reward: MetricReward[Any]) -> list[str]:
    """Return the names of the figures, such as ``posh_f1``."""
    return list(build_figure_columns(reward.metric, []))


def build_call_columns(metric: Figures[T], scores: Sequence[T]) -> dict[str, list[Any]]:
    """Return a column per figure, and ``posh_failure``, which is empty where nothing failed."""
    failures = [str(score.failure or "") for score in scores]
    return {**build_figure_columns(metric, scores), f"{metric.name}_failure": failures}


def divide_or_nan(part: float, whole: int) -> float:
    """Divide; NaN if ``whole`` is 0."""
    return part / whole if whole else math.nan


class PoshReward(MetricReward[Scores]):
    """A callable for ``GRPOTrainer(reward_funcs=...)``; higher rewards are better.

    By default the reward is f1 with guards (``reward.guards``), which lower it for texts that score
    without describing; ``PoshReward(shaping=Shaping(guards="off"))`` is the paper's, f1 alone.

    The dataset has a column of references, each parsed once for all its generations, and for a
    metric with a witness a column of images. See ``MetricReward`` for failures and pickling.

    Args:
        posh: the metric; by default ``PoSh(reader="judge")``: the embedded judge, which
            also says which sentences the reference contradicts.
        shaping: turns scores into rewards; by default f1 with guards. Objective ``separate``
            makes two, precision and recall: pass the trainer ``reward_funcs=reward.functions()``,
            and call ``objectives.settle_aggregation`` so that it adds them correctly.
        reference_column: column of references.
        image_column: column of images, for a witness; by default ``images`` or ``image``.
        max_failed_calls: stop after this many calls in a row in which most completions failed.

    Raises:
        InputError: ``posh`` is a name, or ``max_failed_calls`` is less than 1.
        ConfigError: the shaping has a setting that has no effect with this metric.

    Example:
        ``GRPOTrainer(model, reward_funcs=PoshReward(), args=..., train_dataset=...)``
    """

    __name__ = "posh"

    def __init__(
        self,
        posh: PoshLike | None = None,
        shaping: Shaping | None = None,
        *,
        reference_column: str = "reference",
        image_column: str | None = None,
        max_failed_calls: int = 10,
    ) -> None:
        if isinstance(posh, str):
            raise InputError(f"posh is {posh!r}: pass PoSh({posh!r}) or load_metric({posh!r})")
        if isinstance(posh, Shaping) or not isinstance(shaping, Shaping | None):
            raise InputError(
                f"posh is {posh!r} and shaping is {shaping!r}: the first argument is a metric; "
                'write PoshReward(shaping=Shaping("separate"))'
            )
        if reference_column in WITHHELD_COLUMNS:
            raise InputError(
                f"reference_column is {reference_column!r}, which trainers of TRL do not pass to "
                f"rewards: rename it, as with dataset.rename_column({reference_column!r}, "
                '"reference")'
            )
        self.metric: PoshLike = posh if posh is not None else load_reward_metric()
        self.shaping = shaping if shaping is not None else Shaping()
        if self.shaping.unmentioned_weight != 1 and not self.metric.reads_sentences:
            raise ConfigError(
                f"unmentioned_weight is {self.shaping.unmentioned_weight:g}, but nothing tells "
                "what is unmentioned from what is contradicted: set a reader in the metric's "
                "settings (docs/sentences.md), or leave unmentioned_weight out"
            )
        self.reference_column = reference_column
        self.image_column = image_column
        self._warned: set[str] = set()  # what was said once
        super().__init__(max_failed_calls)

    @property
    def signature(self) -> str:
        """Everything that rewards depend on: the metric, the guards, and non-default shaping.

        Ranks compare it, so that all train on the same balance of precision and recall.
        """
        changed = [f"{name}={value}" for name, value in self.shaping.changed.items()]
        rules = f"{self.metric.signature}|reward:{REWARD_VERSION}"
        if not changed:
            return rules
        return f"{rules}|shaping:{','.join(changed)}"

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """``posh``, or one reward per axis with its weight."""
        if self.shaping.objective != "separate":
            return super().objectives
        names = (f"{self.__name__}_{axis}" for axis in SCORE_AXES)
        return dict(zip(names, self.shaping.weights, strict=True))

    def check(self) -> None:
        """Score two texts, so that an unfit judge or a broken witness fails before the first step.

        Starts the metric's worker processes, too.

        Raises:
            JudgeError: as ``check_judge``.
        """
        from posh_reward.posh.check import check_judge

        if isinstance(self.metric, PoSh):
            self.metric.start()
        check_judge(self.metric)

    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any], ...]:
        references = get_column(columns, self.reference_column, expected, "reference_column")
        self._warn_of_language("a reference does", references, 0.0)
        if not self.metric.wants_images:
            return (references,)
        return references, get_image_column(columns, expected, self.image_column)

    def _warn_of_language(self, which: str, texts: Sequence[object], share: float) -> None:
        from posh_reward.embedded.english.wordnet import is_english

        # Scores of texts that are not English mean nothing: say so once.
        if which in self._warned:
            return
        foreign = [text for text in texts if isinstance(text, str) and not is_english(text)]
        if len(foreign) > share * len(texts):
            self._warned.add(which)
            logger.warning(
                "%s not read like English, the only language of POSH's parser and questions: %s",
                which,
                shorten(foreign[0]),
            )

    def _score(self, texts: list[Any], *columns: Any) -> list[Scores]:
        self._warn_of_language("most completions of a call do", texts, 0.5)
        return self.metric.score(texts, *columns)

    def _build_guard_figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        # A policy whose honest style is taken for a trick learns anything else instead.
        lowered: list[Scores] = []
        shares: list[dict[str, float]] = []
        for score, guarded in zip(scores, self._guard(scores), strict=True):
            if guarded is None:
                continue
            shares.append(guarded.shares)
            if is_lowered(score, guarded):
                lowered.append(score)
        if len(lowered) > len(scores) / 2 and "rules" not in self._warned:
            self._warned.add("rules")
            logger.warning(
                "the guards lower the rewards of %d of %d completions by more than %g, such as %s: "
                "if these are honest, see in the log which guard takes how much, and in "
                "docs/rewards.md what it is for",
                len(lowered), len(scores), MAX_UNREPORTED_LOSS, shorten(lowered[0].generation),
            )  # fmt: skip
        found = {f"{self.metric.name}/lowered_share": divide_or_nan(len(lowered), len(scores))}
        for guard in list_active_guards(self.shaping.limits):
            taken = math.fsum(1 - each[guard.name] for each in shares)
            found[f"{self.metric.name}/guard_{guard.name}"] = divide_or_nan(taken, len(shares))
        return found

    def _build_detail_columns(self, scores: Sequence[Scores], *columns: Any) -> dict[str, Any]:
        return build_detail_columns(scores, columns[0], self._guard(scores))

    def _guard(self, scores: Sequence[Scores]) -> list[GuardedScores | None]:
        return [guard_scores(each, self.shaping, self.metric.weights) for each in scores]

    def _failed(self, why: Failure) -> Scores:
        return Scores.failed(why, signature="")

    def _rewards(self, score: Scores) -> tuple[float | None, ...]:
        if self.shaping.objective != "separate":
            return (shape_reward(score, self.shaping, self.metric.weights),)
        return shape_axes(score, self.shaping, self.metric.weights) or (None, None)
