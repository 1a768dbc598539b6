"""The reward that a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from posh_reward.errors import ConfigError
from posh_reward.reward import instance
from posh_reward.reward.trl import PoshReward


@pytest.fixture(autouse=True)
def fresh() -> None:
    instance.settings_reward.cache_clear()
    instance._make_functions.cache_clear()


def settings(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "reward.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("POSH_REWARD_SETTINGS", str(folder / "reward.yaml"))


def test_without_settings_it_is_the_default_reward() -> None:
    assert isinstance(instance.posh, PoshReward)
    assert instance.posh is instance.posh
    [good, bad] = instance.posh(
        completions=["A woman in a red dress.", "A man."], reference=["A woman in a red dress."] * 2
    )
    assert good is not None
    assert bad is not None
    assert good > bad


def test_a_settings_file_configures_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{metric: {coref: none}, shaping: {precision_weight: 4}, reference_column: caption}"
    settings(tmp_path, text, monkeypatch)
    assert "coref:none" in instance.posh.metric.signature
    assert instance.posh.shaping.precision_weight == 4
    assert instance.posh.reference_column == "caption"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{judge: embedded}", "no setting 'judge'"),
        ("{shaping: {precison_weight: 4}}", "'precison_weight'.*precision_weight"),
        ("{max_failed_calls: many}", "max_failed_calls"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    settings(tmp_path, text, monkeypatch)
    with pytest.raises(ConfigError, match=message):
        _ = instance.posh


def test_separate_has_a_name_for_each_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(tmp_path, "{shaping: {objective: separate, precision_weight: 2}}", monkeypatch)
    asked = {"completions": ["A woman."], "reference": ["A tall woman in a red dress."]}
    [precise], [complete] = instance.precision(**asked), instance.recall(**asked)
    assert precise is not None
    assert complete is not None
    assert precise > complete
    assert instance.precision is instance.precision
    with pytest.raises(ConfigError, match=r"instance\.precision and .*instance\.recall"):
        _ = instance.posh  # at the start, not at the first step
