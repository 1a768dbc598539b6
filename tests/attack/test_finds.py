"""Finds are paid for other rows, in a table and on a page; stored finds of past searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoshReward
from posh_reward.attack.climb import Climb, Target
from posh_reward.attack.finds import PaidText, edited, honest, joined, labelled, page, table
from posh_reward.attack.grammars import WordStock
from posh_reward.cli import OK, UNUSABLE, main
from posh_reward.reward.shaping import Objective, Shaping

ROWS = [
    {"reference": "A red dog sits. It is old."},
    {"reference": "A cat runs. It is grey. It is small. It is alone."},
]


def pays_for_length(completions: list[str], **_: Any) -> list[float]:
    return [len(text.split()) / 100 for text in completions]


def test_yardsticks_are_means_over_rows() -> None:
    """References of 7 and 12 words; their sentences have 3.5 and 3 on average."""
    by_name = {text.name: text.reward for text in honest(Target((pays_for_length,), ROWS))}
    assert by_name["the reference"] == pytest.approx(0.095)
    assert by_name["its first half"] == pytest.approx((0.04 + 0.06) / 2)
    assert by_name["one true sentence"] == pytest.approx((0.035 + 0.03) / 2)


def test_edits_labels_and_characters_are_held_against_the_text_they_are_made_of() -> None:
    target = Target((pays_for_length,), ROWS)
    gains = {text.name: text.gain for text in edited(target)}
    assert gains["each word twice"] == pytest.approx(0.05)
    assert gains["words sorted"] == 0
    by_label = {text.name: text.gain for text in labelled(target)}
    assert by_label["DESCRIPTION 1:"] == pytest.approx(0.1)  # ten words behind the text
    assert joined(target, seed=0)[0].gain is not None


def test_a_table_and_a_page_show_the_finds() -> None:
    paid = [PaidText("blind", "a < b", 0.5, None, "<script>"), PaidText("edit", "x", 0.7, -0.1)]
    assert table(paid).splitlines()[2:] == [
        "| blind | a < b | 0.500 |  |",
        "| edit | x | 0.700 | -0.1000 |",
    ]
    html = page(paid, "posh|judge:x", 80)
    assert "a &lt; b" in html
    assert "<script>" not in html
    assert "posh|judge:x" in html


def test_the_command_writes_both_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "references.jsonl"
    rows = [{"reference": f"A {colour} dog sits on a chair. It is old."} for colour in
            ("red", "green", "blue", "grey")]  # fmt: skip
    data.write_text("\n".join(map(json.dumps, rows)))
    flags = ["attack", str(data), "--output", str(tmp_path / "out"), "--budget", "8",
             "--grammars", "verbs", "--search", "3"]  # fmt: skip
    assert main(flags) == OK
    assert "| blind | verbs |" in capsys.readouterr().out
    assert "| blind | verbs |" in (tmp_path / "out" / "finds.md").read_text()
    assert "Attack on a reward" in (tmp_path / "out" / "finds.html").read_text()
    assert main([*flags, "--search", "4"]) == UNUSABLE
    assert "use more than --search" in capsys.readouterr().err
    data.write_text('{"caption": "A dog."}')
    assert main(flags) == UNUSABLE
    assert "has a text in the column reference" in capsys.readouterr().err


def test_a_reward_of_your_own_names_its_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its column of references is read; rows may lack other columns."""
    data, reward = tmp_path / "rows.jsonl", tmp_path / "reward.yaml"
    rows = [{"caption": f"A {colour} dog sits on a chair. It is old."} | extra for colour, extra in
            (("red", {"title": "Rex"}), ("green", {}), ("blue", {}))]  # fmt: skip
    data.write_text("\n".join(map(json.dumps, rows)))
    reward.write_text("reference_column: caption\nshaping: {objective: separate}")
    flags = ["attack", str(data), "--output", str(tmp_path / "out"), "--budget", "8",
             "--grammars", "verbs", "--search", "2", "--reward", str(reward)]  # fmt: skip
    assert main(flags) == OK
    assert "| honest | the reference | 0.9" in capsys.readouterr().out
    data.write_text('{"reference": "A dog."}')
    assert main(flags) == UNUSABLE
    assert "has a text in the column caption" in capsys.readouterr().err


STORED = json.loads((Path(__file__).parent / "finds.json").read_text(encoding="utf-8"))
ARTWORKS = Path(__file__).resolve().parents[2] / "research" / "calibration" / "artworks.json"


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["f1", "separate"])
def test_what_past_searches_found_pays_no_more(objective: Objective) -> None:
    """Texts of searches before and after the rules; some were searched for on one of these rows."""
    functions = PoshReward(shaping=Shaping(objective)).functions()
    target = Target(functions, json.loads(ARTWORKS.read_text(encoding="utf-8"))[8:14])
    sentence = {text.name: text.reward for text in honest(target)}["one true sentence"]
    paid: dict[tuple[str, bool, int], float] = {}
    for find in STORED:
        climb = Climb(target, find["grammar"], find["behind"], WordStock((), (), ()))
        [value] = climb.values([tuple(find["units"])], target)
        paid[find["grammar"], find["behind"], len(paid)] = value
    blind = {key: value for key, value in paid.items() if not key[1]}
    assert max(blind.values()) < sentence + 0.01, blind
    additions = {key: value for key, value in paid.items() if key[1]}
    assert max(additions.values()) < 0.002, additions
