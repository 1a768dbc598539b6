"""Programs are run over a scene without being trusted: by their language, and by their process."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.other_metrics.prove import sandbox as module
from posh_reward.other_metrics.prove.program_language import (
    Nodes,
    ProgramScene,
    Value,
    describe_violation,
    to_plain_data,
)
from posh_reward.other_metrics.prove.sandbox import ProgramResult, Sandbox, run_programs
from posh_reward.types import Failure
from tests.other_metrics.prove.hostile import HOSTILE, REFUSED, STOPPED, body
from tests.processes import alive, soon

PLANES: Nodes = {
    "planes": {
        "attributes": {"count": "2", "color": "blue, white"},
        "relations_to": {"concrete": {"action": ["parked on"]}},
    },
    "concrete": {"attributes": {}, "relations_to": {}},
    "cargo carts": {
        "attributes": {"count": "several", "state": "grouped together"},
        "relations_to": {"planes": {"spatial": ["in front of", "left of"]}},
    },
}
COLOR = """
def verify(sg) -> str:
    "Finds the colour."
    for entity in sg.get_entities():
        if 'planes' == entity:
            return sg.get_attributes(entity).get('color')
    return None
"""
HONEST: list[tuple[str, Value]] = [
    (COLOR, "blue, white"),
    (body("for entity in sg.get_entities():", "    if 'cargo' in entity:",
          "        return sg.describe(sg.generate_subgraph([entity]))"),
     "cargo carts (count: several, state: grouped together)"),
    (body("return sg.get_incoming_relations('planes')"),
     {"cargo carts": {"spatial": ["in front of", "left of"]}}),
    (body("return list(sg.get_outgoing_relations('planes'))"), ["concrete"]),
    (body("found = {k: v for k, v in sg.get_attributes('planes').items() if k in ('count',)}",
          "return found"), {"count": "2"}),
    (body("return sorted(sg.get_entities(), key=lambda name: len(name), reverse=True)[0]"),
     "cargo carts"),
    (body("n = 0", "for e in sg.get_entities():", "    n += 1", "return n - 1"), 2),
    (body("return f\"{sg.get_attributes('planes')['count']} planes\""), "2 planes"),
    (body("return any('carts' in e for e in sg.get_entities())"), True),
    (body("return {'b', 'a'}"), ["a", "b"]),
    (body("return sg.get_attributes('ghost').get('color')"), None),
]  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    runner = Sandbox(seconds=0.1)
    yield runner
    runner.close()


def test_programs_like_the_papers_give_their_answers(sandbox: Sandbox) -> None:
    answers = run_programs(sandbox, [program for program, _ in HONEST], PLANES)
    assert answers == [ProgramResult(value) for _, value in HONEST]


@pytest.mark.parametrize("name", REFUSED)
def test_the_language_alone_refuses(name: str) -> None:
    why = describe_violation(REFUSED[name])
    assert why is not None
    assert "\n" not in why


@pytest.mark.parametrize("name", STOPPED)
def test_what_the_language_allows_is_stopped_by_the_process(name: str) -> None:
    assert describe_violation(STOPPED[name]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
def test_the_process_alone_survives_every_program(sandbox: Sandbox, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    got = {
        name: sandbox.run(program.replace("{canary!r}", repr(str(canary))), PLANES)
        for name, program in HOSTILE.items()
    }
    assert canary.read_text() == "alive"
    assert [path.name for path in tmp_path.iterdir()] == ["canary"]
    assert sandbox.run(COLOR, PLANES) == ProgramResult("blue, white")
    engine = [n for n, a in got.items() if isinstance(a, Failure) and a.kind == "engine"]
    assert engine == [], "the worker itself was lost"
    assert all(isinstance(got[name], Failure) for name in STOPPED)
    for name in ("unlink", "rename", "make a folder", "read", "write", "list", "fork",
                 "kill the worker", "execute"):  # fmt: skip
        failure = got[name]
        assert isinstance(failure, Failure)
        assert "Operation not permitted" in failure.detail, name


def test_a_forged_answer_is_only_a_value(sandbox: Sandbox) -> None:
    assert sandbox.run(HOSTILE["answer for itself"], PLANES) == ProgramResult("forged")


def test_a_hostile_program_fails_alone(sandbox: Sandbox) -> None:
    programs = [COLOR, REFUSED["import"], STOPPED["loops in loops"], COLOR]
    first, refused, stopped, last = run_programs(sandbox, programs, PLANES)
    assert first == last == ProgramResult("blue, white")
    why = "the program is not run: it uses Import, which is not allowed"
    assert refused == Failure("reply", why)
    assert stopped == Failure("error", "the program failed: it took more than 0.1 s")


def test_a_killed_process_is_restarted(caplog: pytest.LogCaptureFixture) -> None:
    runner = Sandbox()
    assert runner.run(COLOR, PLANES) == ProgramResult("blue, white")
    worker = runner._worker
    assert worker is not None
    worker._keeper.kill()
    with caplog.at_level(logging.WARNING):
        assert runner.run(COLOR, PLANES) == ProgramResult("blue, white")
    assert "died" in caplog.text
    keeper = runner._worker._keeper.pid if runner._worker else 0
    runner.close()
    assert soon(lambda: not alive(keeper))


def test_the_process_gets_none_of_the_users_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert module._environment().keys() <= {"LD_LIBRARY_PATH", "PYTHONHASHSEED"}


def test_programs_get_copies_of_the_graph() -> None:
    scene = ProgramScene(PLANES)
    scene.get_attributes("planes")["color"] = "pink"
    scene.get_outgoing_relations("planes")["concrete"]["action"].append("eats")
    scene.get_entities().append("ghost")
    assert scene.describe(scene) == ProgramScene(PLANES).describe(ProgramScene(PLANES))
    assert "pink" not in scene.describe(scene)


@pytest.mark.parametrize(
    "expression",
    ["str(lambda: 1)[-10:]", "f'{iter([])}'[-10:]", "[e for e in str([iter([])])]",
     "len(str(lambda: 1))", "sorted([str], key=str)[0](lambda: 1)[-6:]"],
)  # fmt: skip
def test_no_part_of_an_address_comes_out(sandbox: Sandbox, expression: str) -> None:
    [failure] = run_programs(sandbox, [body(f"return {expression}")], PLANES)
    assert failure == Failure("error", "the program failed: ValueError: it makes an object a text")


@pytest.mark.parametrize(
    "value",
    [float("nan"), 10**16, "\ud83d", {1: 2}, {"\ud83d": 1}, {"a" * 5000: 1}, object(),
     "<object at 0x7f>", "a" * 5000],
)  # fmt: skip
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"returned|surrogates"):
        to_plain_data(value)


@given(st.text(max_size=300) | st.text("def verify(sg):\n return[]x=.+'", max_size=200))
def test_any_text_is_refused_or_allowed_without_an_exception(text: str) -> None:
    why = describe_violation(text)
    assert why is None or why.startswith("it ")


UNSEALED = """
import json, sys
from posh_reward.other_metrics.prove.program_worker import Bounds, run_in_fork
for program in json.load(sys.stdin):
    request = {"program": program, "nodes": {}}
    print(json.dumps(run_in_fork(request, Bounds(0.2, 5, 256 << 20, sealed=False))))
"""


def test_without_the_kernels_filter_no_file_can_be_opened(tmp_path: Path) -> None:
    """As on systems that have no such filter: the limits of the process hold by themselves."""
    canary = tmp_path / "canary"
    canary.write_text("alive")
    names = ("read", "write", "list", "loops in loops", "repeat")
    programs = [HOSTILE[name].replace("{canary!r}", repr(str(canary))) for name in names]
    done = subprocess.run([sys.executable, "-c", UNSEALED], input=json.dumps(programs), text=True,
                          capture_output=True, check=True)  # fmt: skip
    said = [json.loads(line)["error"] for line in done.stdout.splitlines()]
    assert all("Too many open files" in each for each in said[:3])
    assert said[3] == "it took more than 0.2 s"
    assert said[4].startswith("MemoryError")
    assert canary.read_text() == "alive"
