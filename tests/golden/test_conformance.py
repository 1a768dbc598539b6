"""Graphs, questions and scores are those of the public release."""

from pathlib import Path

import pytest

from tools import conformance


@pytest.mark.parametrize(
    "name",
    [
        "minimal3",
        "goldens",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("minimal", "more")),
    ],
)
def test_the_goldens_of_the_release_are_met(
    shared_data: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goldens = shared_data / "goldens" / f"{name}.jsonl"
    if not goldens.is_file():
        pytest.skip(f"{name}.jsonl is not among the goldens here")
    monkeypatch.setattr("sys.argv", ["conformance", str(goldens)])
    status = conformance.main()
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert printed.count("largest difference") == 1
    assert "differ" not in printed.replace("largest difference", "")
