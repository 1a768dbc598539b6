"""Runs of the demo are tabulated with their ranges."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from posh_reward.tables.standings import ModelMeans
from posh_reward.tables.statistics import Interval
from recipes.demo.demo import build_figures
from research.demo_seeds import main


def write_run(folder: Path, f1: float, gain: Interval) -> None:
    """Writes what the demo would: one model, and one difference."""
    axes = {"precision": Interval(0.9, 0, 1), "recall": Interval(0.8, 0, 1)}
    model = ModelMeans("SFT", 512, 0, {**axes, "f1": Interval(f1, 0, 1)}, 20.0)
    figures = {"models": {"SFT": build_figures(model)}, "gains": {"precision": asdict(gain)}}
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(figures))


def test_means_ranges_and_the_number_of_settled_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    write_run(folders[0], 0.6, Interval(-0.03, -0.04, -0.02, 512))
    write_run(folders[1], 0.7, Interval(0.01, -0.01, 0.02, 512))
    write_run(folders[2], 0.8, Interval(0.02, 0.01, 0.03, 512))
    main([str(folder) for folder in folders])
    printed = capsys.readouterr().out.splitlines()
    precision, recall = "0.900 (0.900 to 0.900)", "0.800 (0.800 to 0.800)"
    words = "20.0 (20.0 to 20.0)"
    assert f"| SFT | 0.700 (0.600 to 0.800) | {precision} | {recall} | {words} |" in printed
    assert "| precision | +0.000 (-0.030 to +0.020) | 1 | 1 | 1 |" in printed
    assert "| two | +0.010 [-0.010, +0.020] |" in printed
