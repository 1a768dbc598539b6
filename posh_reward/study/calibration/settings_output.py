"""A calibration -> settings files: the metric's, and the reward's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError, on_one_line
from posh_reward.settings import ENDINGS
from posh_reward.study.calibration.fit import Calibration
from posh_reward.study.rows.table_writer import whole_file

YAML = ENDINGS[:2]
REWARD = "posh_reward.reward.instance.posh"  # the reward on TRL's command line


def check_output(path: Path, overwrite: bool = False) -> None:
    """Raise ``InputError`` for a name of another ending, or one that would replace a file."""
    if path.suffix.lower() not in YAML:
        raise InputError(f"{path.name!r} does not end in {' or '.join(YAML)}: rename the output")
    for each in (path, reward_path(path)):
        if not overwrite and (each.exists() or each.is_symlink()):
            raise InputError(
                f"{str(each)!r} already exists: choose another output, or pass --overwrite"
            )


def reward_path(path: Path) -> Path:
    """The reward's settings next to the metric's: ``a.yaml`` -> ``a.reward.yaml``."""
    return path.with_name(f"{path.stem}.reward{path.suffix}")


def save(
    calibration: Calibration, metric: Mapping[str, Any], path: Path, notes: Sequence[str]
) -> list[str]:
    """Write both files, each whole or not at all; return a line on the use of each.

    Args:
        calibration: the weights and the balance.
        metric: settings of the metric whose grades it was fitted to.
        path: of the metric's settings; a link is replaced, and what it leads to left alone.
        notes: the head of both files.
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

    # A name with a line break in it would go on as a setting.
    comments = "".join(f"# {on_one_line(line)}".rstrip() + "\n" for line in head)
    body = yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)
    with whole_file(path) as file:
        file.write((comments + body).encode("utf-8"))
