"""The page on the other metrics: its lines work as printed, in order."""

import re
from pathlib import Path

import pytest
from PIL import Image

from posh_reward.cli import command_line

PAGE = (Path(__file__).parents[2] / "docs" / "other_metrics.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def test_its_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (32, 32), "blue").save(tmp_path / "starry_night.jpg")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks("python")), {})
    said = capsys.readouterr().out
    assert said.startswith("2.90 None\ncorrectness 2.70 sigma 0.46 weight 0.20\n")
    assert "harmonic|model:fake-model-1|gamma:0.75|" in said
    assert said.endswith(f"4 {4 / 15} {{'M1': 2, 'M2': 0, 'M3': 0, 'M4': 1, 'M5': 1}}\n")


def test_its_commands_are_understood() -> None:
    lines = [line for block in blocks("bash") for line in block.replace("\\\n", "").splitlines()]
    for line in lines:
        command_line().parse_args(line.split()[1:])
    assert len(lines) == 6
