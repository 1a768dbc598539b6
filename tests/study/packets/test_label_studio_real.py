"""A packet through a real Label Studio: imported, annotated, exported, read.

``python -m venv ENV; ENV/bin/pip install label-studio==1.23.2``, then
``LABEL_STUDIO=ENV/bin/label-studio python -m pytest --run-label-studio`` on this file. Pushing also
needs the extra ``labelstudio`` where pytest runs.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.errors import InputError
from posh_reward.study.packets.make import Packet, write_packet
from posh_reward.study.packets.rater_answers import read_sheets
from posh_reward.training.doctor.node_checks import free_port
from tests.study.packets.studies import EVIL, items, markings, packet, preferences

pytestmark = pytest.mark.label_studio
TOKEN = "0123456789abcdef" * 2 + "01234567"
PATIENCE = 900
"""Seconds for the start, which makes a database: 25 on an idle machine."""


class Studio:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def call(self, path: str, data: object = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    program = os.environ["LABEL_STUDIO"]
    folder = tmp_path_factory.mktemp("label-studio")
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_COLLECT_ANALYTICS": "false", "LABEL_STUDIO_SENTRY_DSN": "",
        "LABEL_STUDIO_FRONTEND_SENTRY_DSN": "", "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
    }  # fmt: skip
    command = [
        program, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port),
        "--username", "rater@example.org", "--password", "pw", "--user-token", TOKEN,
        "--enable-legacy-api-token",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            _wait(server, port, folder / "log")
            yield Studio(port)
        finally:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(PATIENCE):
        assert server.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


def project(studio: Studio, made: Packet, name: str) -> tuple[int, list[int], list[Any]]:
    """A project with one rater's tasks: its number, and the tasks' numbers and data."""
    config = made.files[f"label-studio/{made.key.raters[name].form}.xml"].decode()
    number = studio.call("/api/projects/", {"title": f"For {name}", "label_config": config})["id"]
    tasks = json.loads(made.files[f"label-studio/{name}.json"])
    path = f"/api/projects/{number}/import?return_task_ids=true"
    return number, studio.call(path, tasks)["task_ids"], tasks


def export(studio: Studio, number: int) -> bytes:
    content = studio.call(f"/api/projects/{number}/export?exportType=JSON")
    return json.dumps(content).encode()


def test_preferences_come_back(studio: Studio) -> None:
    made = packet(4)
    number, ids, _ = project(studio, made, "rater-01")
    controls = studio.call(f"/api/projects/{number}")["parsed_label_config"]
    assert set(controls) == {"mistakes", "omissions", "overall"}
    with pytest.raises(InputError, match="it has no answers"):  # an empty list
        read_sheets(export(studio, number), made.key)
    wanted = {"mistakes": 2, "omissions": 0, "overall": -1}
    result = [
        {"from_name": axis, "to_name": "first", "type": "choices",
         "value": {"choices": [str(value)]}}
        for axis, value in wanted.items()
    ]  # fmt: skip
    for task, unfinished in zip(ids, (1, 0), strict=True):
        studio.call(f"/api/tasks/{task}/annotations/", {"result": result, "lead_time": 42.5})
        [sheet] = read_sheets(export(studio, number), made.key)
        assert len(sheet.unfinished) == unfinished
    [sheet] = read_sheets(export(studio, number), made.key)
    assert (sheet.rater, sheet.unfinished) == ("rater-01", ())
    assert [answer.by_axis for answer in preferences(sheet)] == [wanted, wanted]
    assert sheet.answers[0].seconds == 42.5


def test_marks_come_back_from_texts_of_any_kind(studio: Studio) -> None:
    found = items(1)
    texts = {"sft": EVIL + "\r\n  dog", "posh-tuned": "An e\u0301 dog 👩\u200d🦰 $reference sits."}
    item = replace(found.items[0], reference=EVIL, texts=texts)
    made = packet(found=replace(found, items=(item,)), coarse=0, granular=1)
    number, ids, tasks = project(studio, made, "rater-01")
    for task, row in zip(ids, tasks, strict=True):
        start = row["data"]["generation"].index("dog")
        value = {"start": start, "end": start + 3, "text": "dog", "labels": ["Mistake"]}
        result = [
            {"from_name": "mistakes", "to_name": "generation", "type": "labels", "value": value},
            {"from_name": "no_omissions", "to_name": "reference", "type": "choices",
             "value": {"choices": ["nothing"]}},
        ]  # fmt: skip
        studio.call(f"/api/tasks/{task}/annotations/", {"result": result})
    [sheet] = read_sheets(export(studio, number), made.key)
    assert sheet.unfinished == ()
    for answer in markings(sheet):
        text = texts[answer.models[0]]
        assert [text[a:b] for a, b in answer.mistakes] == ["dog"]
        assert answer.omissions == ()


def test_what_the_server_lets_pass_is_refused(studio: Studio) -> None:
    """It takes a choice that there is not; our reader does not."""
    made = packet(4)
    number, ids, _ = project(studio, made, "rater-02")
    result = [{"from_name": "overall", "to_name": "first", "type": "choices",
               "value": {"choices": ["99"]}}]  # fmt: skip
    studio.call(f"/api/tasks/{ids[0]}/annotations/", {"result": result})
    with pytest.raises(ValueError, match="the choice"):
        read_sheets(export(studio, number), made.key)


def test_a_packet_is_pushed_and_comes_back(
    studio: Studio, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip("label_studio_sdk")
    made = packet(5, granular=1)
    key, folder = tmp_path / "packet.key.json", tmp_path / "packet"
    write_packet(made, folder, key)
    push = ["packets", "push", str(key), str(folder), "--url", f"{studio.address}/"]
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "0" * 40)
    assert main(push) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "refused (status 401)" in said
    assert "0" * 40 not in said
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", TOKEN)
    assert main(push) == EXIT_OK
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [rater for rater, _ in lines] == list(made.key.raters)
    number = int(lines[0][1].removeprefix(f"{studio.address}/projects/"))
    project = studio.call(f"/api/projects/{number}")
    assert "judge by the correct description alone" in project["expert_instruction"]
    tasks = studio.call(f"/api/tasks?project={number}")["tasks"]
    shown = [task["data"]["task"] for task in sorted(tasks, key=lambda task: task["id"])]
    assert shown == [task.id for task in made.key.raters["rater-01"].tasks]
    choice = {"to_name": "first", "type": "choices", "value": {"choices": ["1"]}}
    result = [{"from_name": axis, **choice} for axis in ("mistakes", "omissions", "overall")]
    for task in tasks:
        studio.call(f"/api/tasks/{task['id']}/annotations/", {"result": result})
    [sheet] = read_sheets(export(studio, number), made.key)
    assert (sheet.rater, sheet.unfinished) == ("rater-01", ())
    assert main(push) == EXIT_UNUSABLE
    assert "already has the project 'rater-01 of packet" in capsys.readouterr().err
