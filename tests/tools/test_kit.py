"""The kit that measures on a lent card in fifteen minutes (``../shared/gpu``) fits this tree."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("posh_reward", "tools", "recipes")
MODULE = rf"({'|'.join(OURS)})(\.\w+)+"
RUNGS = {  # most seconds of each: a few times what two busy cores need
    "probe": 60, "judge14": 300, "dapo_judged": 600, "ladder": 600, "sft": 480, "parser": 60,
    "dapo_plain": 600,
}  # fmt: skip
"""All but ``zero3``, which needs DeepSpeed, and those that differ from these in sizes only."""
CUT = "configs/dapo/qwen2_5_vl_7b_lora.yaml"
"""Configuration that the kit's rungs of DAPO inherit from."""


@pytest.fixture(scope="module")
def kit(shared_data: Path) -> Path:
    folder = shared_data / "gpu"
    if not folder.is_dir():
        pytest.skip("../shared/gpu (the kit) is not here")
    return folder


def taken(program: Path) -> Iterator[str]:
    """Yield what a program takes from our packages, such as ``tools.bench.gpu.measure``."""
    nodes = list(ast.walk(ast.parse(program.read_text(encoding="utf-8"))))
    modules: dict[str, str] = {}  # by the program's name for it
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in OURS:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                if isinstance(object_of(f"{node.module}.{alias.name}"), ModuleType):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Constant) and re.fullmatch(MODULE, str(node.value)):
            yield str(node.value)  # after python -m
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=own) if name in modules:
                yield f"{modules[name]}.{own}"


def object_of(name: str) -> object | None:
    with suppress(ImportError, AttributeError):
        found: object = resolve_name(name)
        return found
    return None


def test_every_name_that_the_kit_takes_from_us_exists(kit: Path) -> None:
    names = {name for program in kit.glob("*.py") for name in taken(program)}
    assert {"tools.bench.gpu.measure", "posh_reward.cli"} <= names, "an attribute, and a program"
    assert sorted(name for name in names if object_of(name) is None) == []


def test_every_file_that_the_kit_reads_exists(kit: Path) -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in kit.glob("*.py"))
    files = set(re.findall(r"(?:configs|recipes)/[\w/]+\.(?:py|yaml)", text))
    assert CUT in files
    assert [each for each in sorted(files) if not (ROOT / each).is_file()] == []


@pytest.fixture(scope="module")
def rungs(kit: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Notes of the rungs, run small on this machine's CPU, with the packages that are here."""
    folder = tmp_path_factory.mktemp("lease")
    own, checkout = folder / "kit", folder / "checkout"
    shutil.copytree(kit, own)
    shutil.copyfile(kit.parent / "goldens" / "goldens.jsonl", own / "goldens.jsonl")
    shutil.copytree(kit.parent / "data" / "qwen_tokenizer", own / "tokenizer")
    checkout.mkdir()
    for name in OURS:
        (checkout / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "configs", checkout / "configs")
    # Small, a completion has 32 tokens: nearly all are cut, and the ladder rightly refuses a step
    # in which all were cut and masked.
    with (checkout / CUT).open("a", encoding="utf-8") as file:
        file.write("mask_truncated_completions: false\n")
    (folder / "site").mkdir()
    (folder / "site" / "done").touch()  # nothing to unpack
    environment = {
        **os.environ, "PYTHON": sys.executable, "LEASE_SMALL": "1", "SITE": str(folder / "site"),
        "LEASE_WORK": str(folder / "work"), "OUT": str(folder / "out"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    limits = [f"{name}={seconds}" for name, seconds in RUNGS.items()]
    command = ["bash", str(own / "start.sh"), str(sum(RUNGS.values())), *limits]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr[-3000:], (folder / "out" / "log.txt").read_text()[-20_000:])
    assert done.returncode == 0
    noted: dict[str, Any] = json.loads((folder / "out" / "lease.json").read_text())["rungs"]
    return noted


@pytest.mark.kit
def test_every_rung_runs_to_its_end(rungs: dict[str, Any]) -> None:
    assert {name: rung["status"] for name, rung in rungs.items()} == dict.fromkeys(RUNGS, "ran")
    figures = {
        f"{name}.{figure}": value
        for name, rung in rungs.items()
        for figure, value in rung["figures"].items()
    }
    unfinished = [each for each in figures if each.endswith(("_failed", "_left_out"))]
    assert unfinished == []
    statuses = {each: value for each, value in figures.items() if each.endswith("_status")}
    assert len(statuses) == 7, "of four trainings, one of them resumed, described and scored"
    assert set(statuses.values()) == {0}, statuses


@pytest.mark.kit
def test_the_judge_is_measured_and_equals_itself_alone(rungs: dict[str, Any]) -> None:
    judge = rungs["judge14"]["figures"]
    for cost in (judge["cost_released"], judge["cost_prefix_first"]):
        assert cost["failures"] == 0
        assert 0 < cost["floor"] < cost["s_per_pair"]
        assert cost["s_per_pair"] == pytest.approx(cost["x_floor"] * cost["floor"], rel=0.01)
        assert cost["writing"] > 0
    profile = judge["profile_of_one_pair"]
    assert 0 < profile["busy_s"] <= profile["wall_s"]
    assert judge["python_of_one_pair"]
    assert judge["equality"]
    for figure in judge["equality"].values():
        assert figure["agrees"] is True
        assert figure["spread"] > 0
    assert [{"wake", "sleep"} <= row.keys() for row in judge["sleeping"]] == [True] * 3


@pytest.mark.kit
def test_trainings_note_phases_rotary_buffers_and_estimates(rungs: dict[str, Any]) -> None:
    phases = {"dapo_judged": {"generating", "judging", "updating"}, "sft": {"step"}}
    phases["dapo_plain"] = phases["dapo_judged"]
    for name, expected in phases.items():
        training = rungs[name]["figures"][name]
        assert training["finished"] is True
        assert expected <= training["phases"].keys()
        assert training["rotary"] == ["torch.float32"]
        assert rungs[name]["figures"][f"{name}_fit"]
    judged = [line for line in rungs["dapo_judged"]["figures"]["dapo_judged"]["steps"]
              if "judging_share" in line]  # fmt: skip
    assert [0 < line["judging_share"] < 1 for line in judged] == [True] * 2
    assert {line["posh/failed_share"] for line in judged} == {0.0}
    plain = rungs["dapo_plain"]["figures"]
    assert (plain["scored"], plain["failed"]) == (8, 0)


@pytest.mark.kit
def test_the_ladder_is_climbed(rungs: dict[str, Any]) -> None:
    ladder = rungs["ladder"]["figures"]["first_hour"]["rungs"]
    assert [(rung["name"], rung["status"], rung["reason"]) for rung in ladder] == [
        (name, "ran", "") for name in ("node", "ranks", "judge", "policy", "run")
    ]


@pytest.mark.kit
def test_the_machine_and_the_parser_are_measured(rungs: dict[str, Any]) -> None:
    probe, parser = rungs["probe"]["figures"], rungs["parser"]["figures"]
    for figure in ("product_tflops", "device_copy_gb_per_s", "disk_gb_per_s_synced",
                   "host_memory_by_product_gib"):  # fmt: skip
        assert probe[figure] > 0
    assert parser["embedded_texts_per_s"] > parser["embedded_pairs_per_s"] > 0
