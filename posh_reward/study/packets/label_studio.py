"""Tasks <-> Label Studio: a configuration, tasks to import, and its JSON export.

Checked against Label Studio 1.23.2. A control whose ``toName`` lists two objects saves nothing, so
each names one; ``Pairwise`` has no tie, so preferences are ``Choices``. Spans are offsets of code
points, end exclusive; the server checks none of what it is sent, so reading does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from posh_reward.study.packets.rater_texts import (
    AXES,
    SIDES,
    VALUES,
    Form,
    MarkingTexts,
    RaterTexts,
)
from posh_reward.study.packets.study_records import PacketKey, Rater, RaterTask, StudyItem
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

STYLE = (
    # Without pre-wrap blanks are trimmed, and offsets are off.
    ".htx-text, .lsf-richtext__line { white-space: pre-wrap; } "
    ".texts { display: flex; flex-wrap: wrap; gap: 2rem; } .texts > div { flex: 1 1 20rem; }"
)
LABELS = {"mistakes": "Mistake", "omissions": "Missing"}


def config(form: Form, key: PacketKey) -> str:
    """The labelling configuration of a project."""
    image = '  <Image name="image" value="$image" maxWidth="600px"/>\n' if key.images else ""
    body = _coarse_config(key) if form == "coarse" else _granular_config(key)
    return f"<View>\n  <Style>{STYLE}</Style>\n{image}{body}</View>\n"


def _coarse_config(key: PacketKey) -> str:
    generations = "".join(
        f"    <View>{_header(f'{key.texts.generation} #{number}')}"
        f'<Text name="{name}" value="${name}"/></View>\n'
        for number, name in enumerate(("first", "second"), start=1)
    )
    choices = "".join(
        f'    <Choice value={quoteattr(label)} alias="{value}"/>\n'
        for label, value in key.texts.values.items()
    )
    questions = "".join(
        f"  {_header(f'{each.title}: {key.texts.question(axis, reference=key.reference)}')}\n"
        f'  <Choices name="{axis}" toName="first" choice="single-radio" required="true">\n'
        f"{choices}  </Choices>\n"
        for axis, each in key.texts.questions.items()
    )
    return f'{_reference(key)}  <View className="texts">\n{generations}  </View>\n{questions}'


def _granular_config(key: PacketKey) -> str:
    generation = (
        f'  {_header(key.texts.generation)}\n  <Text name="generation" value="$generation"/>\n'
    )
    elements = {"mistakes": ("generation", generation), "omissions": ("reference", _reference(key))}
    return "".join(_markable(side, *elements[side], key.texts.marking[side]) for side in key.sides)


def _markable(side: str, text: str, element: str, texts: MarkingTexts) -> str:
    return (
        f'  {_header(texts.task)}\n  <Labels name="{side}" toName="{text}">'
        f'<Label value="{LABELS[side]}"/></Labels>\n{element}'
        f'  <Choices name="no_{side}" toName="{text}" choice="multiple">'
        f'<Choice value={quoteattr(texts.nothing)} alias="nothing"/></Choices>\n'
    )


def _reference(key: PacketKey) -> str:
    if not key.reference:
        return ""
    return f'  {_header(key.texts.reference)}\n  <Text name="reference" value="$reference"/>\n'


def _header(text: str) -> str:
    return f'<Header size="5" value={quoteattr(text)}/>'


def tasks_json(
    rater: Rater, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> list[Row]:
    """The tasks of one rater's project, to import. ``data`` is visible to raters."""
    return [_task(task, items[task.item], images.get(task.item)) for task in rater.tasks]


def _task(task: RaterTask, item: StudyItem, image: str | None) -> Row:
    texts = [item.texts[model] for model in task.models]
    names = ("first", "second") if len(texts) == 2 else ("generation",)
    data: Row = {"task": task.id, **dict(zip(names, texts, strict=True))}
    if item.reference:
        data["reference"] = item.reference
    if image is not None:
        data["image"] = image
    marks = item.suggested.get(task.models[0]) if len(texts) == 1 else None
    if marks is None:
        return {"data": data}
    result = [
        *(_region("mistakes", "generation", texts[0], span) for span in marks.mistakes),
        *(_region("omissions", "reference", item.reference, span) for span in marks.omissions),
    ]
    return {"data": data, "predictions": [{"model_version": "suggested", "result": result}]}


def _region(side: str, text_name: str, text: str, span: Span) -> Row:
    start, end = span
    value = {"start": start, "end": end, "text": text[start:end], "labels": [LABELS[side]]}
    return {
        "id": f"{side}-{start}-{end}",
        "from_name": side,
        "to_name": text_name,
        "type": "labels",
        "value": value,
    }


def texts_of(data: Mapping[str, Any]) -> tuple[object, ...]:
    """The generations that an exported task shows, in their order."""
    if "generation" in data:
        return (data["generation"],)
    return (data.get("first"), data.get("second"))


def preferences(result: Sequence[Mapping[str, Any]], texts: RaterTexts) -> dict[str, int]:
    """By axis, the choices in an annotation, if any; ``ValueError`` for one that is not ours."""
    choices: dict[str, int] = {}
    for each in result:
        axis = each.get("from_name")
        if each.get("type") != "choices" or axis not in AXES:
            continue
        choices[str(axis)] = _preference(each["value"]["choices"], texts)
    return choices


def _preference(choices: Sequence[str], texts: RaterTexts) -> int:
    values = {**{str(value): value for value in VALUES}, **texts.values}  # an alias, or the label
    if len(choices) != 1 or choices[0] not in values:
        raise ValueError(f"the choice {choices!r} is not one of {', '.join(texts.choices)}")
    return values[choices[0]]


def marks(result: Sequence[Mapping[str, Any]]) -> dict[str, list[Span] | None]:
    """By side, the marked spans of an annotation; None where it was neither marked nor denied."""
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
