"""A metric over the rows of a corpus, for engines that process millions of them.

::

    import ray
    from posh_reward.adapters.score_rows import ScoreRows

    rows = ray.data.read_parquet("captions/")  # with columns generation and reference
    rows = rows.map_batches(ScoreRows, batch_size=256, compute=ray.data.ActorPoolStrategy(size=15))
    rows.write_parquet("scores/")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.metrics.load_metric import load_metric
from posh_reward.metrics.metric import check_sizes
from posh_reward.serve.client import fields_of
from posh_reward.types import Failure

TEXTS = ("_failure", "_signature")
"""Endings of the names of text columns; the others have numbers."""


class ScoreRows:
    """Stage that adds a metric's columns to batches of rows; loads the metric once.

    A row that cannot be scored has nulls, and the reason in ``posh_failure``. A judge that is gone
    ends the job with the reason, instead of filling the corpus with failed rows.

    Args:
        metric: settings of POSH (``load_metric``), or a function without arguments that makes any
            metric, such as a ``HarmonicEval`` or a server's ``RemotePosh``.
        columns: field -> column, where they differ: ``{"reference": "alt_text"}``.
        most_failed: consecutive rows at which the judge may fail before the job ends.
        settings: settings of POSH that override ``metric``, such as ``judge`` and ``store``.
    """

    def __init__(
        self,
        metric: str | Mapping[str, Any] | Callable[[], Any] | None = None,
        columns: Mapping[str, str] | None = None,
        most_failed: int = 64,
        **settings: Any,
    ) -> None:
        check_sizes(most_failed=most_failed)
        self.metric: Any = metric() if callable(metric) else load_metric(metric, **settings)
        self.columns = [(columns or {}).get(name, name) for name in fields_of(self.metric)]
        self._most_failed = most_failed
        self._failed = 0

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with scores as Arrow arrays, so that all parts have one schema.

        Raises:
            InputError: a column is missing.
            JudgeError: the judge is gone.
        """
        import pyarrow

        columns = {
            name: pyarrow.array(
                values, pyarrow.string() if name.endswith(TEXTS) else pyarrow.float64()
            )
            for name, values in self.score(batch).items()
        }
        return {**batch, **columns}

    def score(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the columns of a batch's scores, such as ``posh_f1``.

        Args:
            batch: column -> list or array of values, all of one length.

        Raises:
            InputError: a column is missing.
            JudgeError: the judge is gone.
        """
        scores = self.metric.score(*(_values(batch, name) for name in self.columns))
        self._note_failures([score.failure for score in scores])
        columns: dict[str, list[Any]] = {
            **self.metric.columns(scores),
            "failure": [score.failure and str(score.failure) for score in scores],
            "signature": [score.signature for score in scores],
        }
        return {f"{self.metric.name}_{name}": values for name, values in columns.items()}

    def _note_failures(self, failures: Sequence[Failure | None]) -> None:
        for failure in failures:
            lost = failure is not None and failure.passing
            self._failed = self._failed + 1 if lost else 0
            if self._failed >= self._most_failed:
                raise JudgeError(
                    f"the judge failed at {self._failed} consecutive rows; the last reason: "
                    f"{failure}. Fix that, and restart the job"
                )


def _values(batch: Mapping[str, Any], column: str) -> list[Any]:
    """Return a column's values as Python objects; engines pass several references as an array."""
    if column not in batch:
        raise InputError(f"rows have no column {column!r}, only {', '.join(batch)}: pass columns=")
    return [_plain(each) for each in _plain(batch[column])]


def _plain(values: Any) -> Any:
    return values.tolist() if getattr(values, "ndim", 0) == 1 else values
