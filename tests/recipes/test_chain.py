"""A small Table 7 from scratch: training, descriptions, scores, a study; then each link cut."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from posh_reward.cli import main
from posh_reward.models.hub import weights_fingerprint
from posh_reward.run_record import read_run
from posh_reward.study.packets.make import read_key
from posh_reward.study.packets.study_plan import fit_opinions
from posh_reward.study.packets.study_records import PREFERENCE_AXES
from recipes import dapo_posh, generate, sft
from tests.recipes.test_smoke import UNMASKED, flags
from tools.simulate_study import Crowd, answer_file

IMAGES = "scenes:heldout=6:plain=1"
PROMPT = "What is in the picture?"
FAST = ("--learning_rate", "1e-2")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files of a study, with relative names."""
    folder = tmp_path_factory.mktemp("table7")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copytree(tiny, "tiny")
        asked = ("--prompt_text", PROMPT, *FAST)
        sft.main(flags("sft", Path("tiny"), Path("sft"), "--eval_strategy", "no", *asked))
        dapo_posh.main(flags("dapo", Path("sft"), Path("dapo"), *UNMASKED, *asked))
        generate.main(["--models", "sft", "dapo", "-o", "said.jsonl", "--dataset", IMAGES,
                       "--max-new-tokens", "8"])  # fmt: skip
        score = ["score", "said.jsonl", "-o", "scores.jsonl", "--id", "id", "--quiet"]
        assert main([*score, "--metric", "dapo"]) in (0, 3)
        make = ["packets", "make", "said.jsonl", "-o", "packet", "--dataset", IMAGES]
        assert main([*make, "--coarse", "2", "--times", "2"]) == 0
        key = read_key(Path("packet.key.json"))
        crowd = Crowd(dict.fromkeys(PREFERENCE_AXES, 0.5), fit_opinions(0.5), {})
        Path("answers").mkdir()
        for name in key.raters:
            Path("answers", f"{name}.json").write_bytes(answer_file(key, name, crowd))
        read = ["packets", "read", "packet.key.json", "answers", "--json", "result.json"]
        assert main([*read, "-o", "answers.csv"]) == 0
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of these files, as working folder."""
    folder = Path(shutil.copytree(made, tmp_path / "study"))
    monkeypatch.chdir(folder)
    return folder


def test_a_result_leads_back_to_the_first_weights(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "result.json", "scores.jsonl", "--json", "-"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    heads = [f"{each['what']}: {each['place']}" for each in steps]
    packet = json.loads(Path("result.json").read_text())["packet"]
    chain = [f"results of packet {packet}: result.json", f"key of packet {packet}: packet.key.json",
             "descriptions: said.jsonl", "weights: sft", "weights: tiny", "weights: dapo",
             "scores: scores.jsonl"]  # fmt: skip
    assert [each for each in heads if each in chain][:5] == chain[:5]
    assert set(chain) <= set(heads)
    first = zip(reversed(heads), reversed(steps), strict=True)  # later ones say "see above"
    facts = {head: each["facts"] for head, each in first}
    for run, start in (("sft", "tiny"), ("dapo", "sft")):
        assert facts[f"weights: {run}"]["weights"] == weights_fingerprint(Path(run))
        started = f"{start} ({weights_fingerprint(Path(start))})"
        assert facts[f"weights: {run}"]["started from"] == started
        assert facts[f"weights: {run}"]["prompt"] == PROMPT
    assert facts["scores: scores.jsonl"]["texts"] == "12 as in packet.key.json"
    for path in ("packet", "answers/rater-01.json", "answers.csv", "packet.key.json", "dapo"):
        assert main(["trace", path]) == 0
        assert str(weights_fingerprint(Path("tiny"))) in capsys.readouterr().out


def test_held_out_texts_get_the_prompt_and_the_metric_of_the_training(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in Path("said.jsonl").read_text().splitlines()]
    assert {row["prompt"] for row in rows} == {PROMPT}
    run = read_run(Path("dapo"))
    assert run is not None
    scores = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert run.reward is not None
    assert {run.reward.partition("|reward:")[0]} == {row["signature"] for row in scores}
    score = ["score", "said.jsonl", "-o", "again.jsonl", "--id", "id", "--quiet"]
    assert main([*score, "--metric", "dapo"]) in (0, 3)
    assert "was trained on" not in capsys.readouterr().err
    assert main([*score, "--metric", "dapo", "--preset", "paper", "--overwrite"]) in (0, 3)
    assert "dapo was trained on posh|" in capsys.readouterr().err


def move_weights(folder: str) -> None:
    file = Path(folder, "model.safetensors")
    save_file({n: v + torch.rand_like(v) for n, v in load_file(file).items()}, file)


def edit(path: str, change: Callable[[Any], None]) -> None:
    """Change the JSON in a file, or in its last line."""
    *others, last = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    whole = last.strip() == "}"
    content = json.loads("".join((*others, last)) if whole else last)
    change(content)
    Path(path).write_text(("" if whole else "".join(others)) + json.dumps(content) + "\n")


def put(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.__setitem__(name, value)


def other_text(content: dict[str, Any]) -> None:
    content["generation"] = "A horse."


def other_origin(content: dict[str, Any]) -> None:
    content["origin"] = content["origin"].replace("weights:", "weights:0")


CUTS: dict[str, tuple[Callable[[], object], str, str]] = {
    "the first weights": (lambda: move_weights("tiny"), "weights tiny", "the step before used"),
    "the trained weights": (lambda: move_weights("sft"), "weights sft", "the step before used"),
    "what a run saved": (
        lambda: edit("dapo/run.json", put("weights", "0" * 16)), "weights dapo", "run saved 00000",
    ),
    "a run's record": (
        lambda: Path("sft/run.json").write_text("{"), "weights sft", "run.json is damaged",
    ),
    "a description": (
        lambda: edit("said.jsonl", other_text), "descriptions said.jsonl",
        "is another text in packet.key.json",
    ),
    "a row's origin": (
        lambda: edit("said.jsonl", other_origin), "descriptions said.jsonl",
        "of different models or settings (weights",
    ),
    "a scored text": (
        lambda: edit("scores.jsonl", other_text), "scores scores.jsonl",
        "is another text in packet.key.json",
    ),
    "a score": (
        lambda: edit("scores.jsonl", put("signature", "posh|other")), "scores scores.jsonl",
        "and posh|other now",
    ),
    "a deleted description": (
        lambda: edit("said.jsonl", put("id", "x")), "files of the packet", "lack 1 of its texts",
    ),
    "the key": (
        lambda: edit("packet.key.json", put("seed", 1)), "key of packet", "sealed with another key",
    ),
    "a rater's page": (
        lambda: Path("packet/rater-01.html").write_text("?"), "packet ", "rater-01.html",
    ),
    "an answer": (
        lambda: edit("answers/rater-01.json", put("saved", "1970-01-02T00:00:00.000Z")),
        "answers to packet", "changed since the page saved it",
    ),
    "what results name": (
        lambda: edit("result.json", put("origins", {})), "results of packet", "names other weights",
    ),
}  # fmt: skip


@pytest.mark.parametrize("link", CUTS)
def test_a_broken_link_is_named(study: Path, capsys: pytest.CaptureFixture[str], link: str) -> None:
    everything = ["result.json", "packet", "answers/rater-01.json", "scores.jsonl"]
    assert main(["trace", *everything]) == 0
    capsys.readouterr()
    cut, step, why = CUTS[link]
    cut()
    assert main(["trace", *everything]) == 2
    printed = capsys.readouterr()
    assert step in printed.err
    [broken] = [line for line in printed.out.splitlines() if "BROKEN" in line]
    assert why in broken


def test_nothing_that_raters_get_names_a_model(study: Path) -> None:
    handed_out = b"".join(file.read_bytes() for file in study.glob("packet/**/*") if file.is_file())
    origins = read_key(Path("packet.key.json")).origins
    secrets = {each.partition(":")[2] for origin in origins.values() for each in origin.split("|")}
    for secret in ({"origin", "weights:", "model:", "run.json", *origins} | secrets) - {"1", "8"}:
        assert secret.encode() not in handed_out, secret
