"""A rater's tasks -> one page that needs no network, no server and no other file.

Texts are untrusted: the page has them as JSON that cannot close its element and inserts them only
through ``textContent``, and the content policy runs nothing but our script, by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping

from posh_reward.errors import InputError
from posh_reward.study.packets.study_records import (
    ANSWERS_FORMAT,
    PacketKey,
    RaterTask,
    StudyItem,
    word_spans,
)
from posh_reward.study.pages.html import render
from posh_reward.study.rows.tables import Row


def rater_page(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> str:
    """One HTML document for one rater; nothing in it reveals which model wrote a text.

    ``images`` are data URIs by item id; empty in a study without images.
    """
    rater, texts = key.raters[name], key.texts
    steps = texts.instructions(rater.form, images=key.images, reference=key.reference)
    return render(
        "rater.html",
        "posh_reward.study.packets",
        title=texts.heading[rater.form],
        texts=texts,
        steps=steps,
        marks=rater.form == "granular",
        packet=_contents(name, key, items, images),
    )


def page_to_serve(page: str) -> str:
    """A page that sends its answers to the address it came from (``packets serve``)."""
    for before, after in (
        ("<html ", "<html data-served "),
        ("default-src 'none';", "default-src 'none'; connect-src 'self';"),
    ):
        if before not in page:
            raise InputError("the packet was made by an older version: make it again")
        page = page.replace(before, after, 1)
    return page


def _contents(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> Row:
    rater, texts = key.raters[name], key.texts
    order = list(dict.fromkeys(task.item for task in rater.tasks)) if images else []
    places = {item: place for place, item in enumerate(order)}
    labels = {"reference": texts.reference * key.reference, "generation": texts.generation}
    marking = {side: texts.marking[side] for side in key.sides}
    return {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "token": rater.token,
        "form": rater.form,
        "words": {**texts.page, **labels},
        "questions": [
            [axis, each.title, texts.question(axis, reference=key.reference)]
            for axis, each in texts.questions.items()
        ],
        "choices": [[value, label] for label, value in texts.values.items()],
        "sides": {side: [each.task, each.name, each.nothing] for side, each in marking.items()},
        "tasks": [_task(task, items[task.item], places.get(task.item)) for task in rater.tasks],
        "images": [images[item] for item in order],
    }


def _task(task: RaterTask, item: StudyItem, image: int | None) -> Row:
    texts = [item.texts[model] for model in task.models]
    row: Row = {"id": task.id, "image": image, "reference": item.reference, "texts": texts}
    if len(texts) == 1:
        row["words"] = {"mistakes": word_spans(texts[0]), "omissions": word_spans(item.reference)}
    return row
