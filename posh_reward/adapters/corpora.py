"""A metric over the rows of a corpus, for engines that process millions of them.

``ScoreRows`` for Ray Data and the like, ``score_documents`` for datatrove, ``application`` for Ray
Serve; docs/serve.md shows each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from posh_reward.adapters.completion_results import framework
from posh_reward.errors import InputError, JudgeError
from posh_reward.metrics.metric import check_sizes
from posh_reward.posh.load_metric import load_metric
from posh_reward.serve.client import list_row_fields
from posh_reward.types import Failure

if TYPE_CHECKING:
    from ray import serve

TEXT_COLUMN_ENDINGS = ("_failure", "_signature")
"""Endings of the names of text columns; the others have numbers."""


class ScoreRows:
    """Stage that adds a metric's columns to batches of rows; loads the metric once.

    A row that cannot be scored has nulls, and the reason in ``posh_failure``.

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
        self.columns = [(columns or {}).get(name, name) for name in list_row_fields(self.metric)]
        self._most_failed = most_failed
        self._failed = 0

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with scores as Arrow arrays, so that all parts have one schema."""
        import pyarrow

        columns = {}
        for name, values in self.score(batch).items():
            is_text = name.endswith(TEXT_COLUMN_ENDINGS)
            kind = pyarrow.string() if is_text else pyarrow.float64()
            columns[name] = pyarrow.array(values, kind)
        return {**batch, **columns}

    def score(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the columns of a batch's scores, such as ``posh_f1``.

        Raises:
            InputError: a column is missing.
            JudgeError: the judge is gone.
        """
        scores = self.metric.score(*(_read_column(batch, name) for name in self.columns))
        self._check_failures([score.failure for score in scores])
        columns: dict[str, list[Any]] = {
            **self.metric.columns(scores),
            "failure": [score.failure and str(score.failure) for score in scores],
            "signature": [score.signature for score in scores],
        }
        return {f"{self.metric.name}_{name}": values for name, values in columns.items()}

    def _check_failures(self, failures: Sequence[Failure | None]) -> None:
        for failure in failures:
            if failure is None or not failure.is_transient:
                self._failed = 0
                continue
            self._failed += 1
            if self._failed >= self._most_failed:
                raise JudgeError(
                    f"the judge failed at {self._failed} consecutive rows; the last reason: "
                    f"{failure}. Fix that, and restart the job"
                )


def _read_column(batch: Mapping[str, Any], column: str) -> list[Any]:
    """Return a column's values as Python objects; engines pass several references as an array."""
    if column not in batch:
        raise InputError(f"rows have no column {column!r}, only {', '.join(batch)}: pass columns=")
    return list(map(_as_list, _as_list(batch[column])))


def _as_list(values: Any) -> Any:
    return values.tolist() if getattr(values, "ndim", 0) == 1 else values


def score_documents(batch: int = 256, **stage: Any) -> Any:
    """Make a datatrove step that adds a metric's figures to the metadata of documents.

    A document's text is the generation; the metric's other fields, such as ``reference``, are read
    from its metadata.

    Args:
        batch: documents to score at a time.
        **stage: arguments of ``ScoreRows``.
    """
    with framework("datatrove==0.10.1"):
        from datatrove.pipeline.base import PipelineStep

    class ScoreDocuments(PipelineStep):  # type: ignore[misc]
        name = "POSH"
        type = "SCORER"

        def run(self, data: Iterator[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
            scorer = ScoreRows(**stage)
            data = iter(data)
            while documents := list(islice(data, batch)):
                with self.track_time("batch"):
                    rows = [{**each.metadata, "generation": each.text} for each in documents]
                    # A name that no document has is missing, which is an error.
                    columns = {}
                    for name in set[str]().union(*rows):
                        columns[name] = [row.get(name) for row in rows]
                    scores = scorer.score(columns)
                for place, document in enumerate(documents):
                    document.metadata |= {name: values[place] for name, values in scores.items()}
                    failed = scores[f"{scorer.metric.name}_failure"][place] is not None
                    self.stat_update("failed" if failed else "scored")
                    yield document

    return ScoreDocuments()


def application(settings: Mapping[str, Any]) -> serve.Application:
    """Make the app of ``posh-reward serve``, in replicas that each load the metric.

    Args:
        settings: settings of POSH (``load_metric``), and options of Ray's deployments, such as
            ``num_replicas`` and ``ray_actor_options``.
    """
    with framework("ray[data,serve]==2.60.0"):
        from ray import serve
    metric_names = ("judge", "parser", "coref", "preset", "reader", "witness", "store")
    metric: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in settings.items():
        if name in metric_names:
            metric[name] = value
        elif name != "config":
            options[name] = value
    options["num_replicas"] = int(options.get("num_replicas", 1))  # a string on a command line

    def build() -> Any:
        """Make the app; called in each replica."""
        from posh_reward.models.server.server_http import read_key
        from posh_reward.posh.load_metric import load_metric
        from posh_reward.reward.trl import PoshReward
        from posh_reward.serve.app import create_app
        from posh_reward.serve.client import SERVER_KEY_VARIABLE
        from posh_reward.serve.window import BatchedMetric

        posh: Any = BatchedMetric(load_metric(settings.get("config"), **metric))
        reward = None if posh.wants_images else PoshReward(posh)
        return create_app(posh, reward, key=read_key(SERVER_KEY_VARIABLE))

    return serve.deployment(serve.ingress(build)(), **options).bind()
