"""datatrove's own executor: ``--run-adapters``, with datatrove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posh_reward import PoSh

pytestmark = pytest.mark.adapters
REFERENCE = "A short man in a green coat sleeps under a tree."


def test_documents_are_scored_once_and_tasks_resume(tmp_path: Path) -> None:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    from posh_reward.adapters.datatrove import ScoreDocuments

    texts = [f"A man in coat {number} sleeps." for number in range(20)]
    for part in range(2):
        lines = [
            json.dumps({"id": str(at), "text": texts[at], "metadata": {"reference": REFERENCE}})
            for at in range(part * 10, part * 10 + 10)
        ]
        (tmp_path / "rows").mkdir(exist_ok=True)
        (tmp_path / "rows" / f"{part}.jsonl").write_text("\n".join(lines))

    def run() -> None:
        pipeline = [
            JsonlReader(str(tmp_path / "rows")),
            ScoreDocuments(batch=4),
            JsonlWriter(str(tmp_path / "scores"), compression=None),
        ]
        LocalPipelineExecutor(pipeline, tasks=2, logging_dir=str(tmp_path / "logs")).run()

    run()
    files = sorted((tmp_path / "scores").iterdir())
    (tmp_path / "scores" / files[0].name).write_text("kept")
    run()  # what is done is passed over
    assert files[0].read_text() == "kept"
    found = [json.loads(line) for line in files[1].read_text().splitlines()]
    direct = PoSh().score(texts[10:], [REFERENCE] * 10)
    assert [each["metadata"]["posh_f1"] for each in found] == [each.f1 for each in direct]
