"""The demo over files that are not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

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
