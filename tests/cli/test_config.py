"""``--config`` and the flags that win over it."""

from pathlib import Path

import pytest

from posh_reward.cli import OK, UNUSABLE, main
from tests.cli.running import run


def test_a_flag_wins_over_the_configuration_file(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "metric.yaml"
    config.write_text("judge: nobody\npreset: paper\nweights: {relation: 0.5}\n")
    assert run("score", table, "--metric", config) == OK
    assert "posh|preset:paper|judge:fake" in (said := capsys.readouterr().err)
    assert "weights:1,1,0.5" in said
    assert main(["score", str(table), "--metric", str(config)]) == UNUSABLE
    assert "no judge 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (
            "m.yaml",
            "jugde: fake",
            "no setting 'jugde' (did you mean 'judge'?): choose among judge, parser",
        ),
        ("m.yaml", "judge: [fake]", "judge is ['fake']: pass a name"),
        ("m.yaml", "weights: {entity: -1}", "the weight of entity is -1: use a number from 0"),
        ("m.json", '{"pairs_at_once": true}', "pairs_at_once is True: use a whole number"),
    ],
)
def test_a_bad_setting_is_named(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    why: str,
) -> None:
    (tmp_path / name).write_text(content)
    assert main(["score", str(table), "--metric", str(tmp_path / name)]) == UNUSABLE
    assert why in capsys.readouterr().err
