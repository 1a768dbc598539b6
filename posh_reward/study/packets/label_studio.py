"""Tasks <-> Label Studio: a configuration, tasks to import, and its JSON export.

Checked against Label Studio 1.23.2. A control whose ``toName`` lists two objects saves nothing, so
each names one; ``Pairwise`` has no tie, so preferences are ``Choices``. Spans are offsets of code
points, end exclusive; the server checks none of what it is sent, so reading does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from xml.sax.saxutils import quoteattr

from posh_reward.study.packets.rater_texts import FIELDS, NO_TEXT, SIDES, Form, MarkingTexts
from posh_reward.study.packets.study_records import PacketKey, Rater, RaterTask, StudyItem
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

STYLE = (
    # Without pre-wrap blanks are trimmed, and offsets are off.
    ".htx-text, .lsf-richtext__line { white-space: pre-wrap; } "
    ".texts { display: flex; flex-wrap: wrap; gap: 2rem; } .texts > div { flex: 1 1 12rem; }"
)
LABELS = {"mistakes": "Mistake", "omissions": "Missing"}


def config(form: Form, key: PacketKey) -> str:
    """The labelling configuration of a project."""
    image = '  <Image name="image" value="$image" maxWidth="600px"/>\n' if key.images else ""
    body = _granular_config(key) if form == "granular" else _questions_config(form, key)
    return f"<View>\n  <Style>{STYLE}</Style>\n{image}{body}</View>\n"


def _questions_config(form: Form, key: PacketKey) -> str:
    generations = "".join(
        f"    <View>{_header(f'{key.texts.generation} #{number}')}"
        f'<Text name="{name}" value="${name}"/></View>\n'
        for number, name in enumerate(FIELDS[form], start=1)
    )
    questions = "".join(
        f"  {_header(f'{each.title}: {key.texts.question(axis, reference=key.reference)}')}\n"
        + _controls(axis, form, key)
        for axis, each in key.texts.questions.items()
    )
    return f'{_reference(key)}  <View className="texts">\n{generations}  </View>\n{questions}'


def _controls(axis: str, form: Form, key: PacketKey) -> str:
    if form == "coarse":
        return _choices(axis, "first", key.texts.values)
    # ``Ranker`` has texts dragged into one order. Places by radio buttons, as on our page, can be
    # shared, and need no mouse.
    fewest = key.fewest_texts
    seats = "".join(
        f"    <View>{_header(f'#{number}')}\n"
        f"{_choices(f'{axis}_{number}', name, key.texts.ranks, required=number <= fewest)}"
        "    </View>\n"
        for number, name in enumerate(FIELDS[form], start=1)
    )
    return f'  <View className="texts">\n{seats}  </View>\n'


def _choices(name: str, text: str, values: Mapping[str, int], *, required: bool = True) -> str:
    choices = "".join(
        f'    <Choice value={quoteattr(label)} alias="{value}"/>\n'
        for label, value in values.items()
    )
    return (
        f'  <Choices name="{name}" toName="{text}" choice="single-radio" '
        f'required="{str(required).lower()}">\n{choices}  </Choices>\n'
    )


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
    names = FIELDS[rater.form]
    return [_task(task, items[task.item], images.get(task.item), names) for task in rater.tasks]


def _task(task: RaterTask, item: StudyItem, image: str | None, names: Sequence[str]) -> Row:
    texts = [item.texts[model] for model in task.models]
    data: Row = {"task": task.id, **dict(zip_longest(names, texts, fillvalue=NO_TEXT))}
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


def texts_of(data: Mapping[str, Any], form: Form, count: int) -> tuple[object, ...]:
    """The generations that an exported task shows, in their order."""
    return tuple(data.get(name) for name in FIELDS[form][:count])


def choices(result: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Controls and what was chosen in them, in an annotation."""
    for each in result:
        if each.get("type") == "choices":
            for choice in each["value"]["choices"]:
                yield str(each["from_name"]), str(choice)


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
