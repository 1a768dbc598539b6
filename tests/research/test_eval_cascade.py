"""The cascade's agreement is counted on pairs on which its thresholds were not chosen."""

from pathlib import Path

import pytest

from research.eval_cascade import GradedQuestion, agreement, choose, main


def test_agreement_is_about_what_is_settled_alone() -> None:
    asked = [
        GradedQuestion("entity", "same", 4.9, 4.0),
        GradedQuestion("entity", "same", 4.0, 1.0),
        GradedQuestion("entity", "none", 1.5, 3.0),
        GradedQuestion("attribute", "none", 1.0, 3.0),
    ]
    found = agreement(asked, 2.0, 4.5)
    assert (found.questions, found.saved, found.agreed) == (4, 0.5, 0.5)
    assert agreement(asked, 1.0, 5.1).saved == 0


def test_the_widest_thresholds_that_agree_are_chosen() -> None:
    asked = [
        GradedQuestion("entity", "none", 1.6, 1.2),
        GradedQuestion("entity", "none", 2.3, 4.0),
        GradedQuestion("entity", "same", 4.6, 1.0),
        GradedQuestion("relation", "same", 4.75, 4.0),
    ]
    assert choose(asked) == (2.25, 4.7)


def test_one_part_is_chosen_on_and_another_reported(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (shared_data / "goldens" / "goldens.jsonl").read_text(encoding="utf-8").splitlines()
    some = tmp_path / "some.jsonl"
    some.write_text("\n".join([lines[0], lines[-1]]), encoding="utf-8")
    main([str(some)])
    printed = capsys.readouterr().out
    assert "chosen on:" in printed
    assert "reported on:" in printed
