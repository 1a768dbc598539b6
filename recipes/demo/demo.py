"""The whole pipeline on a laptop: scenes, SFT, DAPO with POSH, held-out scores, a plot and a page.

    make demo

SFT gets *uneven* captions, which leave details out at random; DAPO then gets detailed references
and POSH. So the question is whether the reward teaches a model to mention, truthfully, details that
it sees but was not taught to mention. DAPO runs twice from the same model: rewarded by f1, as in
the paper, and by precision and recall as two objectives (``objective: separate``). As a control,
the same model describes each image's neighbour: it is scored on an image that it has not seen.

Each stage keeps its result in ``demo/`` and is not run again; ``--overwrite`` starts over. Another
``--seed`` draws other weights, batches and samples, and the same held-out images; another number of
``--threads`` rounds differently. ``research/demo_seeds.py`` tabulates several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import posh_reward.training.extra  # noqa: F401

# isort: split
import torch

from posh_reward import PoSh
from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import PoshError, installed_version
from posh_reward.pages.element_marks import PairCard, render_pairs
from posh_reward.pages.html import Thumbnails
from posh_reward.pages.model_plots import INK_COLOR, PRECISION_COLOR, RECALL_COLOR, style_axes
from posh_reward.pages.run_page import read_run, run_page
from posh_reward.process.child import run_command
from posh_reward.process.python import python_module, python_script
from posh_reward.run_record import read_run as read_record
from posh_reward.tables.completions import find_completions
from posh_reward.tables.dataset_images import DatasetImages
from posh_reward.tables.engine import Columns, TableSettings, score_table
from posh_reward.tables.standings import (
    ModelMeans,
    average_by_model,
    compare_rows,
    format_leaderboard,
)
from posh_reward.tables.statistics import Interval
from posh_reward.tables.tables import Row, read_journal, read_scores_of_row
from posh_reward.training.generation import GenerationSettings, generate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[2]
SCENES = "scenes:heldout=512:plain=1"
DAPO = "SFT, then DAPO"
MODELS = {
    "untrained": "untrained",
    "before SFT": "tiny",
    "SFT": "sft",
    "SFT, then DAPO on f1": "dapo_f1",
    DAPO: "dapo",
    "SFT, then DAPO (other images)": "dapo",
}
"""Model in the table -> the folder of its weights."""
PACKAGES = ("posh-reward", "torch", "transformers", "trl")
"""What a card names the versions of."""
COMPLETIONS_ON_PAGE = 200
TWO_CORES_CONFIG = "configs/accelerate/cpu_2.yaml"
HACKING_SIGNS = {
    "posh/length_ratio": "words per word of the reference",
    "posh/repeated_share": "share of repeated phrases",
    "posh/coverage": "share of content words in elements",
    "posh/failed_share": "share without a score",
    "judging_share": "share of the time spent judging",
}
"""Logged figures that rise (coverage: falls) when a policy games the reward or a judge fails."""
LOADED = time.time()
BEGUN = float(os.environ.get("DEMO_BEGUN", LOADED))
"""Start of ``make demo``, in seconds: the demo's time includes the installation."""


def main() -> None:
    """Run the stages that have not run yet, and print where the results are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "demo")
    parser.add_argument("--overwrite", action="store_true", help="delete earlier results first")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and samples")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    flags = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(flags.threads)  # the children's
    torch.set_num_threads(flags.threads)
    if flags.overwrite:
        shutil.rmtree(flags.output, ignore_errors=True)
    flags.output.mkdir(parents=True, exist_ok=True)
    try:
        train_models(flags.output, str(flags.seed))
        summary = write_results(flags.output, score_held_out(flags.output))
    except KeyboardInterrupt:
        sys.exit("\nstopped; finished stages are kept in demo/: `make demo` continues from there")
    except PoshError as error:  # such as scores that an older version has kept
        sys.exit(f"demo.py: {error}")
    card = format_card(summary, flags.output, flags.seed, flags.threads)
    (flags.output / "card.md").write_text(f"```\n{card}\n```\n", encoding="utf-8")
    print(f"\n{card}")


def train_models(output: Path, seed: str) -> None:
    """Build the tiny model, and train it by SFT and by DAPO."""
    untrained, tiny, sft, f1, dapo = (output / name for name in dict.fromkeys(MODELS.values()))
    with stage("A tiny Qwen2.5-VL, with random weights", untrained) as todo:
        if todo:
            make_tiny(untrained, "--seed", seed, "--warm-up-steps", "0", "--pretrain-steps", "0")
    with stage("The same, pretrained to name and caption single figures", tiny) as todo:
        if todo:
            make_tiny(tiny, "--seed", seed)
    with stage("SFT on captions that leave details out", sft) as todo:
        if todo:
            launch_training("recipes/sft.py", "configs/smoke/sft.yaml", tiny, sft, "--seed", seed)
    with stage("DAPO against detailed references, rewarded by POSH's f1", f1) as todo:
        if todo:
            launch_training(
                "recipes/dapo_posh.py", "configs/smoke/dapo.yaml", sft, f1, "--seed", seed
            )
    with stage("DAPO from the same SFT, precision and recall as two objectives", dapo) as todo:
        if todo:
            launch_training("recipes/dapo_posh.py", "configs/smoke/dapo.yaml", sft, dapo,
                   "--objective", "separate", "--seed", seed)  # fmt: skip


def score_held_out(output: Path) -> dict[str, list[Row]]:
    """Describe and score the test split with every model; return the rows by model."""
    texts, scores = output / "said.jsonl", output / "scored.jsonl"
    for name, folder in MODELS.items():
        with stage(f"Descriptions of held-out images: {name}", None):
            label, shuffled, _ = name.partition(" (other images)")
            [new] = generate(
                GenerationSettings({label: str(output / folder)}, texts, SCENES, batch=64,
                           shuffle_images=bool(shuffled), max_new_tokens=64)
            ).values()  # fmt: skip
            print(f"{new} new descriptions" if new else f"kept from {texts}")
    with stage("Their scores, by POSH with the embedded judge", None):
        how = TableSettings(Columns(id="id"))
        tally = score_table(PoSh(), str(texts), str(scores), how, elements=True)
        print(f"scored {tally.rows} descriptions")
    rows = read_journal(scores)
    return {name: [row for row in rows if row["model"] == name] for name in MODELS}


def write_results(output: Path, rows: dict[str, list[Row]]) -> str:
    """Write the figures, the plot and the page; return the table with the gains."""
    untrained, before, sft, f1, dapo, control = (rows[name] for name in MODELS)
    with stage("A table, a plot and a page", None):
        ranked = average_by_model(chain.from_iterable(rows.values()))
        gains = {
            "SFT over untrained": compare_rows(sft, untrained),
            "SFT over before": compare_rows(sft, before),
            "DAPO over SFT": compare_rows(dapo, sft),
            "DAPO over SFT, precision": compare_rows(dapo, sft, "precision"),
            "DAPO over SFT, recall": compare_rows(dapo, sft, "recall"),
            "f1 over SFT, precision": compare_rows(f1, sft, "precision"),
            "f1 over SFT, recall": compare_rows(f1, sft, "recall"),
            "DAPO over f1, precision": compare_rows(dapo, f1, "precision"),
            "DAPO over f1, recall": compare_rows(dapo, f1, "recall"),
            "right over other images": compare_rows(dapo, control),
        }
        text = format_summary(ranked, gains)
        figures = {
            "models": {each.model: build_figures(each) for each in ranked},
            "gains": {name: asdict(gain) for name, gain in gains.items()},
        }
        (output / "reward.png").write_bytes(run_plot(read_history(output / "dapo")))
        for name, content in (
            ("summary.json", json.dumps(figures, indent=2)),
            ("page.html", render_pairs(draw_cards(sft, dapo), in_pairs=True)),
            ("run.html", draw_run(output / "dapo_f1")),
        ):
            (output / name).write_text(content + "\n", encoding="utf-8")
    return text


def draw_run(folder: Path) -> str:
    """Draw the page of a run, with the images that it was trained on."""
    record = read_record(folder)
    assert record is not None, "a stage that is done has one"
    name, split = record.data["name"], record.data["split"]
    images = Thumbnails(folder, dataset=DatasetImages(load_images(name, split), name))
    return run_page(read_run(find_completions(folder), images, COMPLETIONS_ON_PAGE))


def format_card(summary: str, output: Path, seed: int, threads: int) -> str:
    """Return what a reader needs to judge the run and to repeat it, in the checkout's root."""
    folder = os.path.relpath(output)
    versions = [f"{name} {installed_version(name)}" for name in PACKAGES]
    again = ["python", "recipes/demo/demo.py", "--overwrite",
             "--seed", str(seed), "--threads", str(threads), "-o", folder]  # fmt: skip
    return (
        f"{', '.join(versions)}, Python {platform.python_version()}; seed {seed}\n"
        f"again: {shlex.join(again)}\n\n"
        f"{summary}\n\n"
        f"plot: {folder}/reward.png, page: {folder}/page.html, figures: {folder}/summary.json\n"
        f"what DAPO on f1 learned to say: {folder}/run.html\n"
        f"done in {(time.time() - BEGUN) / 60:.1f} minutes on this machine, "
        f"{(LOADED - BEGUN) / 60:.1f} of them for installation"
    )


def build_figures(means: ModelMeans) -> dict[str, Any]:
    """Return a model's figures for JSON, named like the table's columns."""
    figures = asdict(means)
    return {"scored": figures.pop("count"), "failed": figures.pop("failures"), **figures}


def format_summary(ranked: list[ModelMeans], gains: dict[str, Interval]) -> str:
    """Return the table of models, and the differences between them."""
    lines = [
        format_leaderboard(ranked),
        "",
        "differences between models on the same images, in f1 where no score is named; above 0 is",
        "better; 95 % bootstrap intervals",
    ]
    for name, gain in gains.items():
        remark = "" if gain.excludes_zero else "  (not settled)"
        lines.append(f"{name:<26} {gain}{remark}")
    return "\n".join(lines)


def draw_cards(sft: list[Row], dapo: list[Row], count: int = 4) -> list[PairCard]:
    """Draw cards of the first few images whose description DAPO changed, before and after."""
    dataset = load_images(SCENES, "test")
    uuids = list(dataset["uuid"])
    before = {row["id"]: row for row in sft}
    changed = [row for row in dapo if row["generation"] != before[row["id"]]["generation"]]
    cards = []
    for row in changed[:count]:
        png = BytesIO()
        image = dataset[uuids.index(row["id"])]["image"]
        image.resize((image.width * 3, image.height * 3)).save(png, "PNG")
        for name, version in (("after SFT", before[row["id"]]), ("after DAPO", row)):
            title = f"{row['id']}, {name}"
            cards.append(
                PairCard(title, read_scores_of_row(version), png.getvalue(), row["reference"])
            )
    return cards


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Read the trainer's log from the state that it saved."""
    state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    lines: list[dict[str, Any]] = state["log_history"]
    return lines


@contextmanager
def stage(title: str, folder: Path | None) -> Iterator[bool]:
    """Print a stage's title and duration; yield True if it still has to run.

    An interrupted stage leaves no ``done`` file in its folder, so it starts over.
    """
    mark = folder / "done" if folder is not None else None
    todo = mark is None or not mark.exists()
    print(f"\n== {title}" + ("" if todo else f": kept from {folder}"), flush=True)
    begun = time.time()
    if folder is not None and todo:
        shutil.rmtree(folder, ignore_errors=True)
    yield todo
    if todo:
        if mark is not None:
            mark.touch()
        print(f"== {time.time() - begun:.0f} s ({(time.time() - BEGUN) / 60:.1f} min in all)",
              flush=True)  # fmt: skip


def launch_training(recipe: str, config: str, model: Path, output: Path, *more: str) -> None:
    """Train in two processes, through ``accelerate launch``."""
    train = ["--config_file", TWO_CORES_CONFIG, recipe, "--config", config, "--model_name_or_path",
             str(model), "--output_dir", str(output), *more]  # fmt: skip
    print(f"$ accelerate launch {' '.join(train)}".replace(f"{ROOT}/", ""), flush=True)
    run_in_root(python_module("accelerate.commands.launch", *train))


def make_tiny(output: Path, *more: str) -> None:
    """Make the tiny model by its recipe."""
    words = ["recipes/demo/tiny_qwen.py", "--output", str(output), *more]
    print(f"$ python {' '.join(words)}".replace(f"{ROOT}/", ""), flush=True)
    run_in_root(python_script(*words))


def run_in_root(command: list[str]) -> None:
    """Run a command in the checkout's root; end the demo if it fails."""
    quiet = {"PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    child = run_command(command, cwd=ROOT, env={**os.environ, **quiet})
    if child.returncode:
        sys.exit(f"it failed with exit status {child.returncode}: see above")


def run_plot(history: Sequence[Mapping[str, Any]]) -> bytes:
    """A PNG of one run: the reward over steps, beside figures that reveal reward hacking.

    ``history`` is TRL's ``trainer.state.log_history``; lines without ``reward`` are left out.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    # With objective separate, TRL logs the sum of two rewards, which is on another scale.
    two = any("rewards/posh_recall_reward/mean" in line for line in history)
    for key, name, color, width in (
        ("posh/precision", "precision", PRECISION_COLOR, 1.2),
        ("posh/recall", "recall", RECALL_COLOR, 1.2),
        ("posh/f1", "f1", INK_COLOR, 2.4) if two else ("reward", "reward", INK_COLOR, 2.4),
    ):
        _plot_line(left, history, key, color=color, linewidth=width, label=name)
    for key, name in HACKING_SIGNS.items():
        _plot_line(right, history, key, linewidth=1.4, label=name)
    right.set_ylim(bottom=0)
    for axes, title in ((left, "Reward while training"), (right, "What to watch")):
        style_axes(axes)
        axes.set_title(title, loc="left", fontsize=11, color=INK_COLOR)
        axes.set_xlabel("step")
        axes.locator_params(axis="x", integer=True)
        if axes.lines:
            # Below the plot, where no line passes.
            below = {"loc": "upper left", "bbox_to_anchor": (0, -0.12)}
            axes.legend(frameon=False, fontsize=9, **below)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def _plot_line(axes: Axes, history: Sequence[Mapping[str, Any]], key: str, **style: Any) -> None:
    """Plot a figure over the steps at which it was logged, if it was."""
    lines = [line for line in history if line.get("reward") is not None]
    steps, values = [], []
    for number, line in enumerate(lines, start=1):
        if line.get(key) is not None:
            steps.append(line.get("step", number))
            values.append(line[key])
    if steps:
        axes.plot(steps, values, **style)


if __name__ == "__main__":
    main()
