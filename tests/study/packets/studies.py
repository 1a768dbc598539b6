"""Small studies for tests: items, packets, and answers as the page saves them."""

import json
from typing import Any

from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, StudyItems, make_packet
from posh_reward.study.packets.rater_answers import AnswerSheet, sign_answers
from posh_reward.study.packets.study_records import (
    Marking,
    PacketKey,
    Preference,
    RaterTask,
    StudyItem,
)

MODELS = ("sft", "posh-tuned")
EVIL = (
    "</script><script>document.title = 'owned'</script><img src=//x onerror=alert(1)> 🐶 & \u2028"
)


def items(count: int, models: tuple[str, ...] = MODELS) -> StudyItems:
    return StudyItems(
        models,
        tuple(
            StudyItem(
                f"painting-{n}",
                f"A brown dog with {n} spots sleeps under the wooden table.",
                {model: f"A {color} dog with {n} spots sits under a table."
                 for model, color in zip(models, ("red", "blue", "grey", "gold"), strict=False)},
            )
            for n in range(count)
        ),
        (),
    )  # fmt: skip


def packet(count: int = 6, found: StudyItems | None = None, **design: Any) -> Packet:
    chosen = Design(**{"seed": 7, "coarse": 2, "granular": 0, "repeated": 0, **design})
    return make_packet(found or items(count), chosen, None, {"in.jsonl": "0" * 64})


def coarse(key: PacketKey, task: RaterTask, later: int = 1) -> dict[str, Any]:
    """An answer that finds the later model better by ``later`` on every axis."""
    value = later if task.models[0] == key.models[1] else -later
    said = dict.fromkeys(("mistakes", "omissions", "overall"), value)
    return {"task": task.id, **said, "seconds": 60, "comment": ""}


def content(
    key: PacketKey, name: str, answers: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    given = [coarse(key, task) for task in key.raters[name].tasks] if answers is None else answers
    return {"format": "posh-reward answers 1", "packet": key.packet, "rater": name,
            "saved": "2026-11-22T10:00:00.000Z", "answers": given}  # fmt: skip


def saved(key: PacketKey, name: str, answers: list[dict[str, Any]] | None = None) -> bytes:
    return sign_answers(content(key, name, answers), key.raters[name].token)


def preferences(sheet: AnswerSheet) -> list[Preference]:
    found = [answer for answer in sheet.answers if isinstance(answer, Preference)]
    assert len(found) == len(sheet.answers)
    return found


def markings(sheet: AnswerSheet) -> list[Marking]:
    found = [answer for answer in sheet.answers if isinstance(answer, Marking)]
    assert len(found) == len(sheet.answers)
    return found


def exported(
    key: PacketKey, tasks: list[dict[str, Any]], result: list[dict[str, Any]], **annotation: Any
) -> bytes:
    """Label Studio's export of tasks that all got the same result."""
    done = {"result": result, "was_cancelled": False, "lead_time": 30.5, "completed_by": 1}
    return json.dumps(
        [{"id": 5, **task, "annotations": [{**done, **annotation}]} for task in tasks]
    ).encode()
