"""The demo over files that are not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from posh_reward.errors import installed_version
from recipes.demo import demo


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


def test_the_card_says_how_to_repeat_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    versions, again, _, table, _, places, run, time = demo.format_card(
        "a table", tmp_path / "my demo", seed=7, threads=2
    ).split("\n")
    assert versions.startswith(f"posh-reward {installed_version('posh-reward')}, torch ")
    assert versions.endswith("; seed 7")
    assert again.endswith("demo.py --overwrite --seed 7 --threads 2 -o 'my demo'")
    assert table == "a table"
    assert places.startswith("plot: my demo/reward.png, page: my demo/page.html")
    assert run == "what DAPO on f1 learned to say: my demo/run.html"
    assert time.startswith("done in ")
