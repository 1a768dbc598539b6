"""Tasks <-> Potato: a project for each rater, and the ``user_state.json`` that it saves.

Checked against Potato 2.12.1 (``potato-annotation`` on PyPI). Raters see texts as ``display_text``
writes them, for two reasons:

- Potato counts offsets, in code points, in the text with blanks trimmed and collapsed and without
  line breaks (``static/span-core.js``, ``getCanonicalText``), so marks in any other text are off.
  ``marks`` maps offsets into the displayed text back to the original.
- Potato renders markup in texts. Models' texts are untrusted, so ``<`` is shown full-width.

``user_state.json`` has a rater's choices and marks at once; Potato's exports lag behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.packets.label_studio import LABELS
from posh_reward.study.packets.rater_texts import FIELDS, NO_TEXT, RANKED, Form
from posh_reward.study.packets.study_records import PacketKey, StudyItem
from posh_reward.study.rows.table_writer import as_line
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

TARGETS = {"mistakes": "generation", "omissions": "reference"}
CHOICES, MARKS = "instance_id_to_label_to_value", "instance_id_to_span_to_value"
BLANKS = re.compile(r"[\s\ufeff\x00-\x1f\x7f]+")
"""White space in JavaScript, and invisible characters."""


def display_text(text: str) -> str:
    """A text as raters see it: blanks collapsed to spaces, none at the ends, ``<`` full-width."""
    return BLANKS.sub(" ", text).strip(" ").replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")


def places(text: str) -> list[int]:
    """Offset in ``text`` of each character of ``display_text``; of blanks, the first one's."""
    return [
        match.start()
        for match in re.finditer(rf"{BLANKS.pattern}|.", text)
        # Blanks at the ends are not shown.
        if not BLANKS.match(match[0]) or 0 < match.start() < match.end() < len(text)
    ]


def project(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> dict[str, bytes]:
    """Files of one rater's project, by path in its folder. Raters can see their content."""
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
    fields: list[Row] = [
        {"key": "picture", "type": "image", "label": texts.page["image_button"]}
    ] * key.images
    labels = {"reference": texts.reference} if key.reference else {}
    labels |= {
        field: f"{texts.generation} {texts.number(number)}"
        if form != "granular"
        else texts.generation
        for number, field in enumerate(FIELDS[form], start=1)
    }
    for field, label in labels.items():
        target = {"span_target": True} if form == "granular" else {}
        fields.append({"key": field, "type": "text", "label": label, **target})
    schemes = _granular_schemes(key) if form == "granular" else _question_schemes(form, key)
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
        "annotation_schemes": schemes,
    }


def _question_schemes(form: Form, key: PacketKey) -> list[Row]:
    schemes: list[Row] = []
    for axis, each in key.texts.questions.items():
        question = f"{each.title}: {key.texts.question(axis, reference=key.reference)}"
        if form == "coarse":
            schemes.append(_radio(axis, question, key.texts.choices))
            continue
        # Potato's ``ranking`` starts with an order and ignores ``allow_ties`` (schemas/ranking.py),
        # so raters choose a place for each text, as on our page.
        for number in range(1, RANKED + 1):
            nth = key.texts.number(number)
            text = f"{question} {nth}" if number == 1 else f"{each.title}: {nth}"
            required = number <= key.fewest_texts
            schemes.append(_radio(f"{axis}_{number}", text, key.texts.places, required=required))
    return schemes


def _radio(name: str, text: str, labels: Sequence[str], *, required: bool = True) -> Row:
    scheme = {"annotation_type": "radio", "name": name, "description": text}
    return {**scheme, "labels": list(labels), "label_requirement": {"required": required}}


def _granular_schemes(key: PacketKey) -> list[Row]:
    schemes: list[Row] = []
    for side in key.sides:
        texts = key.texts.marking[side]
        schemes += [
            {"annotation_type": "span", "name": side, "description": texts.task,
             "labels": [LABELS[side]], "target_field": TARGETS[side]},
            {"annotation_type": "multiselect", "name": f"no_{side}",
             "description": texts.name, "labels": [texts.nothing]},
        ]  # fmt: skip
    return schemes


def is_state(content: Mapping[str, Any]) -> bool:
    """True for the JSON object that Potato saves for a rater."""
    return CHOICES in content and MARKS in content


def task_ids(content: Mapping[str, Any]) -> list[str]:
    """The tasks that the rater answered, at least in part."""
    return [*dict.fromkeys([*content[CHOICES], *content[MARKS]])]


def choices(content: Mapping[str, Any], task: str) -> Iterator[tuple[str, str]]:
    """(schema, label) pairs chosen in a task."""
    for label, value in content[CHOICES].get(task, ()):
        if value not in (None, False, "", "false"):
            yield label["schema"], label["name"]


def marks(
    content: Mapping[str, Any], task: str, texts: Mapping[str, str]
) -> dict[str, list[Span] | None]:
    """Side -> marked spans of a task; None where nothing was marked or declared absent.

    ``texts`` has the original text of each side.

    Raises:
        InputError: a mark is not in the text.
    """
    controls = {schema for schema, _ in choices(content, task)}
    spans_of: dict[str, list[Span] | None] = {}
    for side, text in texts.items():
        offsets, spans = places(text), []
        for span, value in content[MARKS].get(task, ()):
            if span["schema"] == side and span["target_field"] == TARGETS[side] and value:
                start, end = span["start"], span["end"]
                if not 0 <= start < end <= len(offsets):
                    raise InputError(
                        f"the mark {start}-{end} is outside the {len(offsets)} characters shown"
                    )
                spans.append((offsets[start], offsets[end - 1] + 1))
        spans_of[side] = spans if spans or f"no_{side}" in controls else None
    return spans_of


def seconds(content: Mapping[str, Any], task: str) -> float | None:
    """Time spent on a task; None if Potato recorded none."""
    times = content.get("instance_id_to_behavioral_data", {}).get(task, {})
    spent = times.get("total_time_ms")
    return spent / 1000 if isinstance(spent, int | float) and spent > 0 else None
