"""datatrove: a step that scores documents, for local and Slurm executors.

::

    from datatrove.executor import SlurmPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from posh_reward.adapters.datatrove import ScoreDocuments

    pipeline = [JsonlReader("captions/"), ScoreDocuments(), JsonlWriter("scores/")]
    SlurmPipelineExecutor("posh", pipeline, tasks=1000, time="4:00:00", partition="cpu",
                          logging_dir="logs/").run()

When restarted, it skips finished tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from posh_reward.adapters.completion_results import framework
from posh_reward.adapters.score_rows import ScoreRows

with framework("datatrove==0.10.1"):
    from datatrove.pipeline.base import PipelineStep


class ScoreDocuments(PipelineStep):  # type: ignore[misc]
    """Step that adds a metric's figures to the metadata of documents.

    A document's text is the generation; the metric's other fields, such as ``reference``, are read
    from its metadata.

    Args:
        batch: documents to score at a time.
        **stage: arguments of ``ScoreRows``.
    """

    name = "POSH"
    type = "SCORER"

    def __init__(self, batch: int = 256, **stage: Any) -> None:
        super().__init__()
        self._batch, self._stage = batch, stage

    def run(self, data: Iterator[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Yield the documents of one task, with their scores."""
        scorer = ScoreRows(**self._stage)
        data = iter(data)
        while documents := list(islice(data, self._batch)):
            with self.track_time("batch"):
                rows = [{**each.metadata, "generation": each.text} for each in documents]
                # A name that no document has is missing, which is an error.
                names = {name for row in rows for name in row}
                scores = scorer.score({name: [row.get(name) for row in rows] for name in names})
            for place, document in enumerate(documents):
                document.metadata |= {name: values[place] for name, values in scores.items()}
                failed = scores[f"{scorer.metric.name}_failure"][place] is not None
                self.stat_update("failed" if failed else "scored")
                yield document
