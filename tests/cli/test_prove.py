"""``posh-reward prove``: the command as users type it."""

from pathlib import Path

import pytest

from posh_reward.cli import INCOMPLETE, OK, UNUSABLE, main
from tests.cli.running import rows_in, write_rows

ROW = {
    "response": "The dress is red.",
    "answer": "The dress is red.",
    "question": "What color is the dress?",
    "caption": "A woman in a red dress.",
}


def test_responses_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_rows(tmp_path / "in.jsonl", [ROW])
    assert main(["prove", "score", str(source), "-o", str(tmp_path / "out.jsonl")]) == OK
    (row,) = rows_in(tmp_path / "out.jsonl")
    assert row["helpfulness"] == pytest.approx(1)
    said = capsys.readouterr().err
    assert "helpfulness 1.000 (of 1)" in said
    assert "higher is better" in said
    assert "prove|encoder:embedded-words-1|" in said


def test_pairs_are_verified_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "def verify(sg):\n    return sg.get_attrs('dress').get('color')\n"
    pair = {**ROW, "program": program, "mine": [["dress"], ["dress", "blue"]]}
    source = write_rows(tmp_path / "in.jsonl", [pair])
    arguments = ["prove", "verify", str(source), "-o", str(tmp_path / "out.jsonl")]
    assert main(arguments) == OK
    assert "1 pairs, 1 verified\nprove-programs|tuples:graph|" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--caption-graph", "mine"]) == OK
    assert "1 pairs, 0 verified\n  mismatch: 1" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--caption-graph", "his"]) == UNUSABLE
    assert "name the right one with --caption-graph" in capsys.readouterr().err


def test_a_caption_without_pairs_is_told_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"caption": ROW["caption"]}, {"caption": None}])
    output = str(tmp_path / "pairs.jsonl")
    assert (
        main(["prove", "make", str(source), "-o", output, "--writer", "fake-model"]) == INCOMPLETE
    )
    assert "no pairs for 1 (id 2): the caption is missing" in capsys.readouterr().err
