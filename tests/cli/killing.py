"""Kill commands at random moments, resume them, and compare with runs that nobody killed.

    python -m tests.cli.killing FOLDER COUNT [COMMAND ...]

Prints a line of JSON per command: kills, rows, rows lost and doubled, and whether all bytes are
those of an unkilled run. Each run is a fork, so that none imports anything anew.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
from PIL import Image

from posh_reward import PoSh
from posh_reward.cli import main
from posh_reward.datasets.scenes import caption, generate_scenes
from posh_reward.models.fake_model import FakeModel, quote_suffix
from posh_reward.models.model import MODELS, Prompt
from posh_reward.study.packets.make import read_key, write_packet
from posh_reward.training.doctor.node_checks import free_port
from posh_reward.types import Verdict
from tests.cli.running import rows_in, write_rows
from tests.other_metrics.prove.scripted import scripted_writer
from tests.study.packets.studies import coarse, packet, saved

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SCENES = list(generate_scenes("test", 24))
CAPTIONS = [caption(scene) for scene in SCENES]


class Seeing(FakeModel):
    """Takes a moment for each call, so that a kill finds it at work; asks about the scenes."""

    def __init__(self) -> None:
        super().__init__(writer=ask, sees=True)

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        time.sleep(0.02)
        return super().choose(prompts, labels)


def ask(prompt: Prompt) -> str:
    time.sleep(0.02)
    if not prompt.suffix.startswith("Caption: "):
        return quote_suffix(prompt)
    [reply] = WRITER.write([prompt], 4096)
    return str(reply.text)


WRITER = scripted_writer(SCENES)
MODELS["fake-model"] = "tests.cli.killing:Seeing"

Run = Callable[[Path], int]


def command(words: str) -> Run:
    def run(folder: Path) -> int:
        os.chdir(folder)
        return main(words.split())

    return run


def describe(folder: Path) -> int:
    said, tiny = folder / "said.jsonl", str(folder.parent.parent / "tiny")
    scenes = "scenes:heldout=48"
    try:
        from posh_reward.training.generation import GenerationSettings
        from posh_reward.training.generation import generate as describe_all

        describe_all(GenerationSettings({"a": tiny}, said, scenes, batch=2, max_new_tokens=8))
    except KeyboardInterrupt:
        return 130
    return 0


COMMANDS: dict[str, tuple[Run, str, str]] = {
    "harmonic score": (
        command("harmonic score in.jsonl -o out.jsonl --judge fake-model --id id --batch 2"),
        "out.jsonl", "id"),
    "prove make": (
        command("prove make in.jsonl -o out.jsonl --writer fake-model --caption caption --id id"),
        "out.jsonl", "question"),
    "prove score": (
        command("prove score in.jsonl -o out.jsonl --entailment-judge fake-model --id id "
                "--batch 2"), "out.jsonl", "id"),
    "packets make": (
        command("packets make in.jsonl others.jsonl -o packet --coarse 3 --seed 1 --id id"),
        "packet.key.json", ""),
    "packets read": (
        command("packets read packet.key.json answers -o out.jsonl --json o.json --page o.html"),
        "out.jsonl", ""),
    "generate": (describe, "said.jsonl", "id"),
}  # fmt: skip
"""Command -> how it is run, its output, and the column that tells rows apart."""


def write_inputs(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    Image.new("RGB", (16, 16), "red").save(folder / "red.png")
    rows = [
        {"id": f"p{n}", "model": "ab"[n % 2], "image": "red.png", "caption": text,
         "generation": f"A dog with {n} spots.", "reference": text, "response": f"{n} red dogs.",
         "question": f"Which animal sleeps {n} times?", "answer": "A brown dog."}
        for n, text in enumerate(CAPTIONS)
    ]  # fmt: skip
    other = [row | {"generation": "A cat.", "model": "other"} for row in rows]
    write_rows(folder / "in.jsonl", rows if folder.name != "packets make" else
               [row | {"model": "one"} for row in rows])  # fmt: skip
    write_rows(folder / "others.jsonl", other)
    if folder.name == "packets read":
        made = packet(6)
        write_packet(made, folder / "packet", folder / "packet.key.json")
        (folder / "answers").mkdir()
        for rater in made.key.raters:
            (folder / "answers" / f"{rater}.json").write_bytes(saved(made.key, rater))
    return folder


def start(run: Run, folder: Path) -> int:
    """Fork a run; return its process."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            os.setsid()
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            status = run(folder)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return pid


def outputs(folder: Path) -> dict[str, bytes]:
    """All files but the log, the inputs and what is left of killed attempts."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "log" and not path.relative_to(folder).parts[0]
        .startswith("packet-") and not path.name.endswith((".part", ".lock"))
    }  # fmt: skip


def killed(name: str, folder: Path, count: int, rng: random.Random) -> dict[str, object]:
    """Kill a command ``count`` times, as often resumed, and start it over when it is done."""
    run, output, column = COMMANDS[name]
    whole = write_inputs(folder / "whole" / name)
    begun = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(start(run, whole), 0)[1]) == 0, log_of(whole)
    took = time.monotonic() - begun
    wanted, found = outputs(whole), Counter[str]()
    while found["kills"] < count:
        here = write_inputs(folder / "killed" / name)
        status: int | None = None
        while status != 0:
            pid = start(run, here)
            time.sleep(rng.uniform(0, took / 2 if found["kills"] < count else took * 5))
            number = rng.choice(SIGNALS)
            done, state = os.waitpid(pid, os.WNOHANG)
            if not done and found["kills"] < count:
                os.kill(pid, number)
                found["kills"] += 1
            if not done:
                _, state = os.waitpid(pid, 0)
            status = os.waitstatus_to_exitcode(state)
            if status not in (0, 130, -9, -15):
                found[f"status {status}"] += 1
                # A key without its folder: the command asks to delete it.
                (here / "packet.key.json").unlink(missing_ok=True)
                assert found[f"status {status}"] < 50, log_of(here)
        found["whole runs"] += 1
        now = outputs(here)
        other = [path for path in {*wanted, *now} if now.get(path) != wanted.get(path)]
        # A list of readings has their times, and only new answers add to it.
        found["other bytes"] += any(not path.endswith(".readings.jsonl") for path in other)
        for path in here.glob("*.readings.jsonl"):
            found["doubled"] += len(rows_in(path)) - 1
        if column:
            rows = Counter(row[column] for row in rows_in(here / output))
            true = Counter(row[column] for row in rows_in(whole / output))
            found["rows"] += rows.total()
            found["lost"] += (true - rows).total()
            found["doubled"] += (rows - true).total()
        found["tracebacks"] += log_of(here).count("Traceback")  # such as pydantic's on Ctrl-C
    return {"command": name, **found}


def log_of(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "log").read_text(encoding="utf-8", errors="replace")
    return ""


def killed_server(folder: Path, count: int, rng: random.Random) -> dict[str, object]:
    """Kill ``serve`` while a client sends texts again until they are scored."""
    here = write_inputs(folder / "serve")
    port = free_port()
    run = command(f"serve --port {port} --judge fake-model --store {here / 'kept.sqlite'}")
    url, found = f"http://127.0.0.1:{port}/v1/score", Counter[str]()
    answers: dict[int, object] = {}
    while found["kills"] < count or not found["rows"]:
        pid, end = start(run, here), time.monotonic() + rng.uniform(0.1, 1.5)
        while time.monotonic() < end or found["kills"] >= count > 0 == found["rows"]:
            number = found["sent"] % 50
            row = {"generation": f"A dog with {number} spots.", "reference": CAPTIONS[0]}
            try:
                reply = httpx.post(url, json={"rows": [row]}, timeout=10)
            except httpx.TransportError:
                time.sleep(0.01)
                continue
            found["sent"] += 1
            found["rows"] += 1
            found["lost"] += reply.status_code != 200
            score = reply.json()["scores"] if reply.status_code == 200 else None
            found["other answers"] += answers.setdefault(number, score) != score
        os.kill(pid, rng.choice(SIGNALS))
        os.waitpid(pid, 0)
        found["kills"] += 1
    found["tracebacks"] += log_of(here).count("Traceback")
    return {"command": "serve", **found}


def killed_study(folder: Path, count: int, rng: random.Random) -> dict[str, object]:
    """Kill ``packets serve`` while a page sends each answer until the server has it."""
    here = write_inputs(folder / "study")
    made = packet(6)
    write_packet(made, here / "packet", here / "packet.key.json")
    key, port = read_key(here / "packet.key.json"), free_port()
    run = command(f"packets serve packet.key.json packet --port {port}")
    found, version, stored = Counter[str](), "none", b""
    tasks = key.raters["rater-01"].tasks
    file = here / "packet.answers" / f"answers-{key.packet}-rater-01.json"
    while found["kills"] < count:
        pid, end = start(run, here), time.monotonic() + rng.uniform(0.1, 1.0)
        while time.monotonic() < end:
            answers = [{**coarse(key, task), "comment": f"{found['rows']}"} for task in tasks]
            data = saved(key, "rater-01", answers)
            try:
                links = (here / "packet.links.csv").read_text().splitlines()
                token = links[1].split(",")[1]
                url = f"http://127.0.0.1:{port}/r/{token}/answers"
                now = httpx.get(url)  # as the page does, to learn the version
                found["lost"] += bool(stored) and now.content != stored and now.content != data
                version = now.headers["X-Answers-Version"]
                reply = httpx.put(url, content=data, headers={"X-Answers-Version": version})
                assert reply.status_code == 204, reply.text
            except (httpx.TransportError, OSError, IndexError):
                time.sleep(0.01)
                continue
            stored = data
            found["rows"] += 1
        os.kill(pid, rng.choice(SIGNALS))
        os.waitpid(pid, 0)
        found["kills"] += 1
        now_there = file.read_bytes() if file.exists() else b""
        found["lost"] += bool(stored) and now_there not in (stored, data)
    found["tracebacks"] += log_of(here).count("Traceback")
    return {"command": "packets serve", **found}


def campaign(folder: Path, count: int, names: Sequence[str]) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # What each run would import and load anew.
    import posh_reward.serve.app
    import posh_reward.serve.study_app  # noqa: F401

    PoSh().score(["A dog."], ["A red dog."])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    servers = {"serve": killed_server, "packets serve": killed_study}
    for name in names or (*COMMANDS, *servers):
        rng = random.Random(name)
        if name == "generate":
            from recipes.demo import tiny_qwen

            tiny_qwen.build(folder / "tiny", warm_up_steps=0, pretrain_steps=0)
        found = servers[name](folder, count, rng) if name in servers else killed(
            name, folder, count, rng)  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    campaign(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
