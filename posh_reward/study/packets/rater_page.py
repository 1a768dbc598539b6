"""A rater's tasks -> one page that needs no network, no server and no other file.

Texts are untrusted: they are in the page as JSON that cannot end its element, reach the document
through ``textContent`` alone, and the content policy lets nothing run but our script, by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from posh_reward.metrics.inputs import filled
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.study_records import (
    ANSWERS_FORMAT,
    Rater,
    RaterTask,
    StudyItem,
    whole_words,
    word_spans,
)
from posh_reward.study.pages.html import policy_hash, script_json, template
from posh_reward.study.rows.tables import Row

HERE = "posh_reward.study.packets"
SCRIPTS = ("sha256.js", "coarse.js", "granular.js", "rater.js")


def rater_page(
    packet: str, name: str, rater: Rater, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> str:
    """One HTML document for one rater.

    Args:
        packet: the packet's name.
        name: the rater's.
        rater: what the rater is given.
        items: by id.
        images: data URIs by the item's id; empty for a study without images.
    """
    suggested = any(items[task.item].suggested for task in rater.tasks)
    steps = rater_texts.instructions(rater.form, images=bool(images), suggested=suggested)
    marking = f"<p>{escape(rater_texts.HOW_TO_MARK)}</p>" if rater.form == "granular" else ""
    values = {
        "title": escape(rater_texts.TITLES[rater.form]),
        "steps": "".join(f"<li>{escape(step)}</li>" for step in steps),
        "marking": marking,
        "keeping": escape(rater_texts.KEEPING),
        "style": template("rater.css", HERE),
        "script": "\n".join(template(name, HERE) for name in SCRIPTS),
        "packet": script_json(_contents(packet, name, rater, items, images)),
    }
    hashes = {f"{name}_hash": policy_hash(values[name]) for name in ("script", "style")}
    return filled(template("rater.html", HERE), {**values, **hashes})


def _contents(
    packet: str, name: str, rater: Rater, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> Row:
    shown = list(dict.fromkeys(task.item for task in rater.tasks)) if images else []
    places = {item: place for place, item in enumerate(shown)}
    return {
        "format": ANSWERS_FORMAT,
        "packet": packet,
        "rater": name,
        "token": rater.token,
        "form": rater.form,
        "words": {"reference": rater_texts.REFERENCE, "generation": rater_texts.GENERATION},
        "questions": [[each.axis, each.title, each.text] for each in rater_texts.QUESTIONS],
        "choices": list(rater_texts.CHOICES.items()),
        "sides": rater_texts.SIDES,
        "tasks": [_task(task, items[task.item], places.get(task.item)) for task in rater.tasks],
        "pictures": [images[item] for item in shown],
    }


def _task(task: RaterTask, item: StudyItem, image: int | None) -> Row:
    texts = [item.texts[model] for model in task.models]
    row: Row = {
        "id": task.id,
        "picture": image,
        "reference": item.reference,
        "texts": texts,
    }
    if len(texts) == 1:
        row["words"] = [word_spans(texts[0]), word_spans(item.reference)]
        marks = item.suggested.get(task.models[0])
        if marks is not None:
            found = {
                "mistakes": whole_words(marks.mistakes, word_spans(texts[0])),
                "omissions": whole_words(marks.omissions, word_spans(item.reference)),
            }
            row["suggested"] = {side: spans for side, spans in found.items() if spans}
    return row
