"""A rater's tasks -> one page that needs no network, no server and no other file.

Texts are untrusted: they are in the page as JSON that cannot end its element, reach the document
through ``textContent`` alone, and the content policy lets nothing run but our script, by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping

from posh_reward.errors import InputError
from posh_reward.study.packets.study_records import (
    ANSWERS_FORMAT,
    PacketKey,
    RaterTask,
    StudyItem,
    whole_words,
    word_spans,
)
from posh_reward.study.pages.html import render
from posh_reward.study.rows.tables import Row

HERE = "posh_reward.study.packets"


def rater_page(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> str:
    """One HTML document for one rater; it holds nothing of the key that tells a side.

    ``images`` are data URIs by the item's id; none in a study without images.
    """
    rater, texts = key.raters[name], key.texts
    suggested = any(items[task.item].suggested for task in rater.tasks)
    return render(
        "rater.html",
        HERE,
        title=texts.heading[rater.form],
        texts=texts,
        steps=texts.instructions(
            rater.form, images=key.images, suggested=suggested, reference=key.reference
        ),
        marks=rater.form == "granular",
        packet=_contents(name, key, items, images),
    )


def page_to_serve(page: str) -> str:
    """A page that sends its answers to the address from which it came (``packets serve``)."""
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
    questions = texts.questions.items()
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
            for axis, each in questions
        ],
        "choices": [[value, label] for label, value in texts.values.items()],
        "places": texts.places,
        "sides": {side: [each.task, each.name, each.nothing] for side, each in marking.items()},
        "tasks": [_task(task, items[task.item], places.get(task.item)) for task in rater.tasks],
        "images": [images[item] for item in order],
    }


def _task(task: RaterTask, item: StudyItem, image: int | None) -> Row:
    texts = [item.texts[model] for model in task.models]
    row: Row = {"id": task.id, "image": image, "reference": item.reference, "texts": texts}
    if len(texts) == 1:
        within = {"mistakes": word_spans(texts[0]), "omissions": word_spans(item.reference)}
        row["words"] = within
        marks = item.suggested.get(task.models[0])
        if marks is not None:
            spans = {
                side: whole_words(getattr(marks, side), words) for side, words in within.items()
            }
            row["suggested"] = {side: each for side, each in spans.items() if each}
    return row
