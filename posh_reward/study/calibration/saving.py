"""A calibration -> settings files: the metric's, and the reward's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.settings import ENDINGS
from posh_reward.study.calibration.fit import Calibration

YAML = ENDINGS[:2]
REWARD = "posh_reward.reward.instance.posh"
"""What TRL's command line calls the reward."""


def check_output(path: Path) -> None:
    """Raises ``InputError`` if a settings file cannot be called so."""
    if path.suffix.lower() not in YAML:
        raise InputError(f"{path.name!r} does not end in {' or '.join(YAML)}: rename the output")


def reward_path(path: Path) -> Path:
    """Where the reward's settings go: ``a.yaml`` -> ``a.reward.yaml``."""
    return path.with_name(f"{path.stem}.reward{path.suffix}")


def save(
    calibration: Calibration, metric: Mapping[str, Any], path: Path, notes: Sequence[str]
) -> list[str]:
    """Writes both files; returns how to use them, one line each.

    Args:
        calibration: what was fitted.
        metric: settings of the metric whose grades it was fitted to.
        path: where the metric's settings go.
        notes: what was measured; the head of both files.

    Raises:
        OSError: a file cannot be written.
    """
    precision, recall = calibration.precision_and_recall
    settings = {**metric, "weights": asdict(calibration.weights)}
    shaping = {"precision_weight": precision, "recall_weight": recall}
    reward = reward_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scoring = f"posh-reward score pairs.jsonl --config {path.name} -o scores.jsonl"
    training = f"POSH_REWARD_SETTINGS={reward.name} trl grpo --reward_funcs {REWARD} ..."
    _write(path, [scoring, "", *notes], settings)
    _write(reward, [training, "", *notes], {"metric": settings, "shaping": shaping})
    return [
        f"wrote {str(path)!r}: --config of `posh-reward score`, load_metric(...), --metric of the "
        "recipes",
        f"wrote {str(reward)!r}: POSH_REWARD_SETTINGS of TRL's command line; in the recipe "
        f"--metric {path} --precision_weight {precision:.6g} --recall_weight {recall:.6g}",
    ]


def _write(path: Path, head: Sequence[str], settings: Mapping[str, Any]) -> None:
    import yaml

    comments = "".join(f"# {line}".rstrip() + "\n" for line in head)
    body = yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)
    path.write_text(comments + body, encoding="utf-8")
