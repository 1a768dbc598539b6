"""datatrove's own executor: ``--run-adapters``, with datatrove."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from posh_reward import InputError, JudgeError, PoSh
from posh_reward.types import Failure, Scores

pytestmark = pytest.mark.adapters
REFERENCE = "A short man in a green coat sleeps under a tree."


class Gone(PoSh):
    """A judge that fails at every text."""

    def score(self, generations: Any, references: Any, images: Any = None) -> list[Scores]:
        why = Failure("engine", "the card is gone")
        return [Scores.failed(why, "s") for _ in generations]


def write_rows(folder: Path) -> list[str]:
    """Two files of ten documents; their texts."""
    texts = [f"A man in coat {number} sleeps." for number in range(20)]
    metadata = {"reference": REFERENCE, "generation": "the name of a model, not the text"}
    (folder / "rows").mkdir()
    for part in range(2):
        lines = [
            json.dumps({"id": str(at), "text": texts[at], "metadata": metadata})
            for at in range(part * 10, part * 10 + 10)
        ]
        (folder / "rows" / f"{part}.jsonl").write_text("\n".join(lines))
    return texts


def run(folder: Path, **stage: Any) -> None:
    """Score the files in two tasks, one after the other."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    from posh_reward.adapters.corpora import score_documents

    pipeline = [
        JsonlReader(str(folder / "rows")),
        score_documents(batch=4, **stage),
        JsonlWriter(str(folder / "scores"), compression=None),
    ]
    logs = str(folder / "logs")
    LocalPipelineExecutor(pipeline, tasks=2, workers=1, logging_dir=logs).run()


def scores(file: Path) -> dict[str, float]:
    """F1 by text, each text once."""
    found = [json.loads(line) for line in file.read_text().splitlines()]
    by_text = {each["text"]: each["metadata"]["posh_f1"] for each in found}
    assert len(by_text) == len(found)
    return by_text


def test_documents_are_scored_once_and_tasks_resume(tmp_path: Path) -> None:
    texts = write_rows(tmp_path)
    run(tmp_path)
    first, second = sorted((tmp_path / "scores").iterdir())
    first.write_text("kept")
    run(tmp_path)  # what is done is passed over
    assert first.read_text() == "kept"
    direct = PoSh().score(texts[10:], [REFERENCE] * 10)
    assert scores(second) == {each.generation: each.f1 for each in direct}


def test_a_task_that_was_killed_is_repeated_whole(tmp_path: Path) -> None:
    texts = write_rows(tmp_path)

    class Killed(PoSh):
        calls = 0

        def score(self, generations: Any, references: Any, images: Any = None) -> Any:
            Killed.calls += 1
            if Killed.calls == 5:  # in the second task
                os.kill(os.getpid(), signal.SIGKILL)
            return super().score(generations, references)

    process = os.fork()
    if not process:
        os.setsid()
        run(tmp_path, metric=Killed)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    os.killpg(process, signal.SIGKILL)  # its helper process would stay
    written = [*(tmp_path / "scores").iterdir()]
    done = {file.name: file.stat().st_mtime_ns for file in written if file.stat().st_size}
    run(tmp_path)
    files = sorted((tmp_path / "scores").iterdir())
    assert files[0].stat().st_mtime_ns == done[files[0].name]
    direct = PoSh().score(texts, [REFERENCE] * 20)
    expected = {each.generation: each.f1 for each in direct}
    assert scores(files[0]) | scores(files[1]) == expected


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"columns": {"reference": "truth"}}, "no column 'truth'"),
        ({"metric": Gone, "most_failed": 6}, "failed at 6 consecutive rows.*the card is gone"),
    ],
)
def test_a_task_without_column_or_judge_ends_with_its_reason(
    tmp_path: Path, stage: dict[str, Any], reason: str
) -> None:
    write_rows(tmp_path)
    with pytest.raises((InputError, JudgeError), match=reason):
        run(tmp_path, **stage)
