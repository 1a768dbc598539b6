"""The command that says whether a run fits, and the table in the documentation."""

from pathlib import Path

import pytest

from tools import fit


@pytest.mark.slow
def test_the_documented_table_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fit.ROOT)
    assert fit.main(["--table"]) == 0
    printed = capsys.readouterr().out
    assert printed in (fit.ROOT / "research/results/performance.md").read_text(encoding="utf-8")


def test_what_is_no_configuration_of_a_recipe_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("seed: 1\n")
    for argv, message in (
        ([], "name a configuration"),
        (["nowhere.yaml"], "no file 'nowhere.yaml'"),
        ([str(tmp_path / "mine.yaml")], "names no recipe: begin it with"),
    ):
        assert fit.main(argv) == 2
        assert message in capsys.readouterr().err
