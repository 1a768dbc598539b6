"""Train one model per reward and seed, from the same SFT model, and evaluate it."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posh_reward import PoSh
from posh_reward.models.fake_model import make_fake_verdict
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.posh.judge import Judge
from posh_reward.tables.engine import Columns, TableSettings, score_table
from posh_reward.tables.standings import average_by_model, compare_rows
from posh_reward.tables.statistics import paired_difference
from posh_reward.tables.tables import Row, read_journal
from posh_reward.training.generation import GenerationSettings, generate
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Phrase, Question, Reply, Usage, Verdict
from research.child_run import run_logged


class NoisyJudge:
    """Add a normal error to a judge's grades, always the same for the same question."""

    def __init__(self, judge: Judge, deviation: float) -> None:
        self._judge = judge
        self._deviation = deviation
        self.name = f"{judge.name}-noise-{deviation:g}"

    @property
    def usage(self) -> Usage:
        """The judge's usage."""
        return self._judge.usage

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the judge's verdicts with their errors."""
        return list(map(self._disturb, requests, self._judge.grade(requests)))

    def _disturb(self, request: Question, verdict: Verdict) -> Verdict:
        if verdict.grade is None:
            return verdict
        fields = (
            request.direction, request.kind, request.identifier, request.text, request.other,
            request.source.text, request.target.text,
        )  # fmt: skip
        rng = random.Random(hashlib.sha256(repr(fields).encode()).digest())
        grade = verdict.grade + rng.gauss(0.0, self._deviation)
        return make_fake_verdict(min(max(grade, LOWEST_GRADE), HIGHEST_GRADE))

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Rewrite as the judge does."""
        return self._judge.rewrite(requests)

    def sleep(self) -> None:
        """Let the judge sleep."""
        self._judge.sleep()

    def wake(self) -> None:
        """Wake the judge."""
        self._judge.wake()

    def close(self) -> None:
        """Close the judge."""
        self._judge.close()


def noisy(posh: PoSh, deviation: float) -> PoSh:
    """Return the metric with a noisy judge; with deviation 0 unchanged."""
    if not deviation:
        return posh
    return PoSh(NoisyJudge(posh.judge, deviation), witness=posh.witness)


ROOT = Path(__file__).resolve().parents[2]
CONFIG = "configs/smoke/dapo.yaml"
COMPLETIONS_PER_IMAGE = 8  # as in CONFIG
COMPLETIONS_PER_STEP = 128  # in one process; the demo has two processes with 64 each
AXES = ("precision", "recall", "f1")
TRUE = "true details"
"""Count of a description's elements that the drawing supports: graded at least
``MIN_SUPPORTED_GRADE``."""
FIGURES = (*AXES, TRUE)  # by which runs are compared
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """Settings of one training."""

    reward: str
    """An objective, and flags of the recipe after colons: ``separate:precision_weight=2``.
    ``witness=oracle`` is the witness that knows the dataset's images."""
    seed: int
    dataset: str
    noise: float
    """Standard deviation of the error added to the judge's grades, which are 1 to 5."""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        noise = f" noise {self.noise:g}" if self.noise else ""
        return slug(f"{self.reward}{noise} seed {self.seed}")

    def flags(self) -> list[str]:
        """Return the recipe's flags."""
        objective, *fields = self.reward.split(":")
        witness = f"witness={self.dataset}"  # the oracle knows the scenes of the training set
        options = [witness if field == "witness=oracle" else field for field in fields]
        words = [word for option in options for word in f"--{option}".split("=", 1)]
        return [
            "--objective", objective, *words,
            "--seed", str(self.seed), "--dataset_name", self.dataset,
        ]  # fmt: skip


def run_all(model: Path, output: Path, runs: Sequence[Run]) -> None:
    """Run all that have no line in ``runs.jsonl`` yet; each finished run adds one."""
    output.mkdir(parents=True, exist_ok=True)
    journal = output / "runs.jsonl"
    finished = {Run(**row["run"]) for row in read_journal(journal)}
    for run in runs:
        if run in finished:
            continue
        begun, folder = time.monotonic(), output / run.folder
        train(model, folder, run)
        row = {"run": asdict(run), **outcome(model, folder, run.dataset)}
        row["seconds"] = round(time.monotonic() - begun)
        with journal.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")
        print(f"{run.reward} seed {run.seed}: {row['means']}", flush=True)


def train(model: Path, folder: Path, run: Run) -> None:
    """Run DAPO in a child process that logs to ``log.txt``."""
    run_logged(
        folder, ROOT, "-m", "research.compare_rewards", "dapo", "--noise", run.noise,
        "--config", CONFIG, "--model_name_or_path", model, "--output_dir", folder, *run.flags(),
        "--per_device_train_batch_size", COMPLETIONS_PER_STEP,
        "--log_completions", "true", "--num_completions_to_print", 1,
    )  # fmt: skip


def dapo(noise: float, argv: list[str]) -> None:
    """Run the recipe with ``noise`` added to its judge's grades."""
    from recipes import dapo_posh

    make = dapo_posh.make_reward

    def make_reward(script: Any) -> Any:
        reward = make(script)
        assert isinstance(reward.metric, PoSh)  # as the recipe makes it
        reward.metric = noisy(reward.metric, noise)
        return reward

    dapo_posh.make_reward = make_reward
    dapo_posh.main(argv)


def outcome(model: Path, folder: Path, dataset: str) -> Row:
    """Return held-out differences from the starting model, and spreads within groups."""
    images = in_full(dataset)
    before = held_out(model, folder.parent / f"start_{slug(images)}", images)
    after = held_out(folder, folder / "held_out", images)
    gains = {axis: compare_rows(after, before, axis) for axis in AXES}
    gains[TRUE] = paired_difference(true_details(after), true_details(before))
    [row] = average_by_model(after)
    return {
        "scores": {**by_image(after), TRUE: true_details(after)},
        "gains": {name: asdict(gain) for name, gain in gains.items()},
        "means": {axis: row.axes[axis].mean for axis in AXES},
        "words": row.words,
        "spreads": spreads(folder / "completions"),
    }


def by_image(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Return scores by axis, in the order of the images' ids."""
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    return {axis: [row[axis] for row in ordered] for axis in AXES}


def in_full(dataset: str) -> str:
    """Name the same images with full references, which describe everything drawn."""
    return dataset.replace(":uneven=1", "")


def true_details(rows: Sequence[Row]) -> list[float]:
    """Count the details of each description that its reference supports, in the order of ids."""
    counts: list[float] = []
    for row in sorted(rows, key=lambda row: str(row["id"])):
        own = [element for element in row["elements"] if element["direction"] == "precision"]
        counts.append(float(sum((each["grade"] or 0) >= MIN_SUPPORTED_GRADE for each in own)))
    return counts


def held_out(model: Path, stem: Path, dataset: str) -> list[Row]:
    """Describe the test split greedily, and score it by POSH as published; cached by ``stem``."""
    texts, scores = stem.with_suffix(".said.jsonl"), stem.with_suffix(".scored.jsonl")
    models = {model.name: str(model)}
    generate(GenerationSettings(models, texts, dataset, batch=64, max_new_tokens=64))
    score_table(
        PoSh(), str(texts), str(scores), TableSettings(Columns(id="id"), quiet=True), elements=True
    )
    return read_journal(scores)


def spreads(folder: Path) -> dict[str, list[float]]:
    """Return spreads and correlations within groups at each step, of the scores as published.

    ``precision``, ``recall``: mean standard deviation within groups. ``correlation``: of precision
    with recall. ``follows_precision``, ``follows_recall``: of the advantage with that score.
    Correlations are of values centred within their groups; NaN without variation.
    """
    from pyarrow.parquet import read_table

    values: defaultdict[str, list[float]] = defaultdict(list)
    for path in sorted(folder.glob("*.parquet")):
        step = read_table(path)
        precision, recall, advantage = (
            centre(step[column].to_numpy())
            for column in ("posh_precision", "posh_recall", "advantage")
        )
        values["precision"].append(spread(precision))
        values["recall"].append(spread(recall))
        values["correlation"].append(correlation(precision, recall))
        values["follows_precision"].append(correlation(advantage, precision))
        values["follows_recall"].append(correlation(advantage, recall))
    return dict(values)


def centre(values: Values) -> Values:
    """Subtract each group's mean; shape (groups, ``COMPLETIONS_PER_IMAGE``)."""
    groups: Values = values.reshape(-1, COMPLETIONS_PER_IMAGE)
    means: Values = np.nanmean(groups, axis=1, keepdims=True)
    return groups - means


def spread(groups: Values) -> float:
    """Return the mean standard deviation within groups."""
    return float(np.nanmean(np.nanstd(groups, axis=1, ddof=1)))


def correlation(some: Values, others: Values) -> float:
    """Correlate two figures over all completions that have both."""
    both = ~(np.isnan(some) | np.isnan(others))
    return float(np.corrcoef(some[both], others[both])[0, 1])


def slug(text: str) -> str:
    """Turn a text into a file name."""
    return "".join(character if character.isalnum() else "_" for character in text)
