"""Tasks <-> Label Studio: a configuration, tasks to import, and its JSON export.

Checked against Label Studio 1.23.2. A control whose ``toName`` lists two objects saves nothing, so
each names one. ``Pairwise`` has no tie, so preferences are ``Choices``. Spans are offsets of code
points, end exclusive; the server checks nothing it is sent, so reading does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from markupsafe import Markup

from posh_reward.study.packets.rater_texts import FIELDS, SIDES, Form
from posh_reward.study.packets.study_records import PacketKey, Rater, RaterTask, StudyItem
from posh_reward.study.pages.html import render
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

LABELS = {"mistakes": "Mistake", "omissions": "Missing"}


def config(form: Form, key: PacketKey) -> str:
    """The labelling configuration of a project."""
    names, package = FIELDS[form], "posh_reward.study.packets"
    xml = render("label_studio.xml", package, form=form, key=key, texts=key.texts, names=names,
                 labels=LABELS, quote=_quote)  # fmt: skip
    return f"{xml}\n"


def _quote(text: str) -> Markup:
    return Markup(quoteattr(text))  # noqa: S704 - quoteattr escapes


def tasks_json(
    rater: Rater, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> list[Row]:
    """The tasks of one rater's project, to import. Raters can see ``data``."""
    names = FIELDS[rater.form]
    return [_task(task, items[task.item], images.get(task.item), names) for task in rater.tasks]


def _task(task: RaterTask, item: StudyItem, image: str | None, names: Sequence[str]) -> Row:
    texts = [item.texts[model] for model in task.models]
    data: Row = {"task": task.id, **dict(zip(names, texts, strict=True))}
    if item.reference:
        data["reference"] = item.reference
    if image is not None:
        data["image"] = image
    return {"data": data}


def choices(result: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(control, choice) pairs of an annotation."""
    for each in result:
        if each.get("type") == "choices":
            for choice in each["value"]["choices"]:
                yield str(each["from_name"]), str(choice)


def marks(result: Sequence[Mapping[str, Any]]) -> dict[str, list[Span] | None]:
    """Side -> marked spans of an annotation; None where nothing was marked or declared absent."""
    spans_of: dict[str, list[Span] | None] = {}
    for side in SIDES:
        spans = [
            (each["value"]["start"], each["value"]["end"])
            for each in result
            if each.get("from_name") == side and each.get("type") == "labels"
        ]
        nothing = any(each.get("from_name") == f"no_{side}" for each in result)
        spans_of[side] = spans if spans or nothing else None
    return spans_of
