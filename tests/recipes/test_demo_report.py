"""The demo's last stage, on two images: a table, a plot and a page."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.datasets.load_dataset import load_images
from posh_reward.study.rows.engine import Columns, TableSettings, score_table
from posh_reward.study.rows.tables import Journal, read_journal
from recipes import demo

SAID = {"SFT": "There is a man.", "SFT, then DAPO": "There is a man in a white coat."}


@pytest.mark.slow
def test_the_report_of_two_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = load_images(demo.SCENES, "test")[:2]
    said, scored = tmp_path / "said.jsonl", tmp_path / "scored.jsonl"
    rows_said = [
        {"id": uuid, "model": model, "image": image, "generation": SAID.get(model, "A tree."),
         "reference": reference}
        for model in demo.MODELS
        for image, (uuid, reference) in enumerate(zip(dataset["uuid"], dataset["reference"],
                                                      strict=True))
    ]  # fmt: skip
    with closing(Journal(said)) as journal:
        journal.append(rows_said)
    how = TableSettings(Columns(id="id"), quiet=True)
    score_table(PoSh(), str(said), str(scored), how, elements=True)
    steps = [{"step": step, "reward": 0.5, "posh/precision": 0.5, "posh/recall": 0.5}
             for step in (1, 2)]  # fmt: skip
    (tmp_path / "dapo").mkdir()
    (tmp_path / "dapo" / "trainer_state.json").write_text(json.dumps({"log_history": steps}))

    rows = read_journal(scored)
    demo.report(tmp_path, {m: [row for row in rows if row["model"] == m] for m in demo.MODELS})

    printed = capsys.readouterr().out
    assert "higher is better" in printed
    assert "DAPO over SFT" in printed
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("after SFT") == page.count("after DAPO") == 2
    assert (tmp_path / "reward.png").is_file()


def test_results_that_do_not_fit_end_it_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in demo.MODELS.values():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "done").touch()
    (tmp_path / "said.jsonl").write_text("notes\n")
    monkeypatch.setattr("sys.argv", ["demo.py", "-o", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"demo.py: .*said.jsonl"):
        demo.main()
