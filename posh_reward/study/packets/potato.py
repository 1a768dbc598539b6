"""Tasks <-> Potato: a project for each rater, and the ``user_state.json`` that it saves.

Checked against Potato 2.12.1 (``potato-annotation`` on PyPI). Raters see texts as
``display_text`` has them, for two reasons:

- Its page counts offsets, in code points, against the text with its blanks trimmed and run together
  and without line breaks (``static/span-core.js``, ``getCanonicalText``): marks in any other text
  are off. Offsets into what is shown are put back to where they are in the text.
- Its page runs markup that a text holds. What a model wrote is not to be trusted, so ``<`` is shown
  as a wide sign.

What a rater chose or marked is in ``user_state.json`` at once; Potato's exports lag behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_texts import FIELDS, NO_TEXT, RANKED, Form
from posh_reward.study.packets.study_records import PacketKey, StudyItem
from posh_reward.study.rows.journal import as_line
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

LABELS = {"mistakes": "Mistake", "omissions": "Missing"}
TARGETS = {"mistakes": "generation", "omissions": "reference"}
CHOICES, MARKS = "instance_id_to_label_to_value", "instance_id_to_span_to_value"
BLANKS = re.compile(r"[\s\ufeff\x00-\x1f\x7f]+")
"""White space in JavaScript, and signs that cannot be seen."""
WIDE = "\N{FULLWIDTH LESS-THAN SIGN}"


def display_text(text: str) -> str:
    """A text as raters see it: each run of blanks one space, none at the ends, no ``<``."""
    return BLANKS.sub(" ", text).strip(" ").replace("<", WIDE)


def places(text: str) -> list[int]:
    """Offset in the text of each character of ``display_text``; a space has its run's first."""
    runs = {match.start(): match.end() for match in BLANKS.finditer(text)}
    offsets, at = [], 0
    while at < len(text):
        end = runs.get(at, at + 1)
        if at not in runs or (at > 0 and end < len(text)):  # blanks at the ends are not shown
            offsets.append(at)
        at = end
    return offsets


def project(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> dict[str, bytes]:
    """One rater's project, by path in its folder. Raters see what is in it."""
    import yaml

    rater = key.raters[name]
    rows = []
    for task in rater.tasks:
        item = items[task.item]
        generations = [item.texts[model] for model in task.models]
        texts = dict(zip_longest(FIELDS[rater.form], generations, fillvalue=NO_TEXT))
        texts |= {"reference": item.reference} if key.reference else {}
        row = {"id": task.id, **{field: display_text(text) for field, text in texts.items()}}
        rows.append(row | ({"picture": images[task.item]} if images else {}))
    config = yaml.safe_dump(_config(name, key), sort_keys=False, allow_unicode=True)
    return {"config.yaml": config.encode("utf-8"), "tasks.jsonl": b"".join(map(as_line, rows))}


def _config(name: str, key: PacketKey) -> Row:
    """The settings of a project; ``potato validate --strict`` accepts them."""
    form, texts = key.raters[name].form, key.texts
    steps = texts.instructions(form, images=key.images, suggested=False, reference=key.reference)
    titles = {
        "reference": texts.reference,
        "generation": texts.generation,
    } | {
        field: f"{texts.generation} #{number}"
        for number, field in enumerate(FIELDS["ranking"], start=1)
    }
    fields: list[Row] = [{"key": "picture", "type": "image", "label": "Image"}] * key.images
    for name_ in (*(["reference"] if key.reference else []), *FIELDS[form]):
        target = {"span_target": True} if form == "granular" else {}
        fields.append({"key": name_, "type": "text", "label": titles[name_], **target})
    return {
        "annotation_task_name": f"{texts.heading[form]} ({name})",
        "annotation_instructions": "\n".join(
            f"{n}. {step}" for n, step in enumerate((*steps, *filter(None, [texts.contact])), 1)
        ),
        "task_dir": ".",
        "data_files": ["tasks.jsonl"],
        "output_annotation_dir": "annotation_output",
        "item_properties": {"id_key": "id", "text_key": "id"},
        "assignment_strategy": "fixed_order",
        "require_password": False,
        "user_config": {"allow_all_users": True, "users": []},
        "instance_display": {"fields": fields},
        "annotation_schemes": _granular_schemes(key)
        if form == "granular"
        else _question_schemes(form, key),
    }


def _question_schemes(form: Form, key: PacketKey) -> list[Row]:
    schemes: list[Row] = []
    fewest = key.fewest_texts
    for axis, each in key.texts.questions.items():
        question = f"{each.title}: {key.texts.question(axis, reference=key.reference)}"
        if form == "coarse":
            schemes.append(_radio(axis, question, key.texts.choices))
            continue
        # Its ``ranking`` starts with an order and ignores ``allow_ties`` (schemas/ranking.py), so
        # each text is given a place, as on our page.
        schemes += [
            _radio(
                f"{axis}_{number}",
                f"{question} #{number}" if number == 1 else f"{each.title}: #{number}",
                key.texts.places,
                required=number <= fewest,
            )
            for number in range(1, RANKED + 1)
        ]
    return schemes


def _radio(name: str, text: str, labels: Sequence[str], *, required: bool = True) -> Row:
    return {
        "annotation_type": "radio",
        "name": name,
        "description": text,
        "labels": list(labels),
        "label_requirement": {"required": required},
    }


def _granular_schemes(key: PacketKey) -> list[Row]:
    schemes: list[Row] = []
    for side in key.sides:
        texts = key.texts.marking[side]
        schemes += [
            {
                "annotation_type": "span",
                "name": side,
                "description": texts.task,
                "labels": [LABELS[side]],
                "target_field": TARGETS[side],
            },
            {
                "annotation_type": "multiselect",
                "name": f"no_{side}",
                "description": "If there is nothing to mark:",
                "labels": [texts.nothing],
            },
        ]
    return schemes


def is_state(content: Mapping[str, Any]) -> bool:
    """True for the JSON object that Potato saves of a rater."""
    return CHOICES in content and MARKS in content


def task_ids(content: Mapping[str, Any]) -> list[str]:
    """The tasks that the rater answered, in part or whole."""
    return [*dict.fromkeys([*content[CHOICES], *content[MARKS]])]


def choices(content: Mapping[str, Any], task: str) -> Iterator[tuple[str, str]]:
    """Schemas and the labels chosen in them, in a task."""
    for label, value in content[CHOICES].get(task, ()):
        if value not in (None, False, "", "false"):
            yield label["schema"], label["name"]


def marks(
    content: Mapping[str, Any], task: str, texts: Mapping[str, str]
) -> dict[str, list[Span] | None]:
    """By side, the marked spans of a task; None where it was neither marked nor denied.

    ``texts`` has, by side, the text in which it is marked, as it was before it was shown.

    Raises:
        InputError: a mark is not in the text.
    """
    controls = {schema for schema, _ in choices(content, task)}
    spans_of: dict[str, list[Span] | None] = {}
    for side, text in texts.items():
        spans = [
            _put_back(span["start"], span["end"], places(text))
            for span, value in content[MARKS].get(task, ())
            if span["schema"] == side and span["target_field"] == TARGETS[side] and value
        ]
        spans_of[side] = spans if spans or f"no_{side}" in controls else None
    return spans_of


def _put_back(start: int, end: int, where: Sequence[int]) -> Span:
    if not 0 <= start < end <= len(where):
        raise InputError(
            f"the mark {start}-{end} is not in a text of which {len(where)} characters are shown"
        )
    return where[start], where[end - 1] + 1


def seconds(content: Mapping[str, Any], task: str) -> float | None:
    """Time at a task, as far as Potato tells."""
    times = content.get("instance_id_to_behavioral_data", {}).get(task, {})
    spent = times.get("total_time_ms")
    return spent / 1000 if isinstance(spent, int | float) and spent > 0 else None
