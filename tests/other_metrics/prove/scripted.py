"""A writer of questions that needs no model: it knows the drawing behind each caption."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from posh_reward.datasets.scenes import COLORS, GARMENTS, Scene, Subject, caption
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt

WORN = """def verify(sg):
    for person in sg.get_entities():
        if person == '{who}':
            for worn in sg.get_outgoing_relations(person):
                if worn.startswith('{what}'):
                    return sg.get_attributes(worn).get('color')
    return None
"""
COLOR = """def verify(sg):
    for thing in sg.get_entities():
        if thing == '{who}':
            return sg.get_attributes(thing).get('color')
    return None
"""
COUNT = COLOR.replace("'color'", "'count'")
SIZE = COLOR.replace("'color'", "'size'")
NUMBERS = {2: "two", 3: "three"}


@dataclass(frozen=True)
class Question:
    question: str
    answer: str
    program: str
    truth: str
    lie: str
    """The answer that is not true of the drawing."""


def questions(scene: Scene) -> Iterator[Question]:
    """All unambiguous questions about a drawing, with its truth."""
    subjects = [subject for subject in scene.slots if subject is not None]
    named = Counter(noun for subject in subjects for noun in _nouns(subject))
    for subject in subjects:
        if named[subject.noun] == 1:
            yield from _about(subject)


def _nouns(subject: Subject) -> list[str]:
    return [noun for noun in (subject.noun, subject.held, subject.behind) if noun]


def _about(subject: Subject) -> Iterator[Question]:
    who = subject.noun
    other = COLORS[(COLORS.index(subject.color) + 1) % len(COLORS)]
    if subject.is_person:
        worn = GARMENTS[who]
        ask = f"What color is the {worn} that the {who} wears?"
        yield Question(ask, f"The {worn} is {subject.color}.", WORN.format(who=who, what=worn),
                       subject.color, f"The {worn} is {other}.")  # fmt: skip
    elif subject.count > 1:
        number, wrong = NUMBERS[subject.count], NUMBERS[5 - subject.count]
        yield Question("How many birds can you see?", f"There are {number} birds.",
                       COUNT.format(who="birds"), number, f"There are {wrong} birds.")  # fmt: skip
    else:
        yield Question(f"Which color does the {who} have?", f"The {who} is {subject.color}.",
                       COLOR.format(who=who), subject.color, f"The {who} is {other}.")  # fmt: skip
        if subject.size:
            wrong = "small" if subject.size == "large" else "large"
            yield Question(f"How big is the {who}?", f"It is a {subject.size} {who}.",
                           SIZE.format(who=who), subject.size, f"It is {wrong}.")  # fmt: skip


def truth_tuples(scene: Scene) -> list[list[str]]:
    """The drawing as tuples, with no text in between."""
    found: list[list[str]] = []
    for subject in scene.slots:
        if subject is None:
            continue
        who = subject.noun if subject.count == 1 else "birds"
        found.append([who])
        if subject.is_person:
            worn = f"{GARMENTS[who]} of {who}"
            found += [[worn], [worn, subject.color], [who, "in", worn]]
        else:
            found += [[who, subject.color], *([[who, subject.size]] if subject.size else [])]
            found += [[who, NUMBERS[subject.count]]] if subject.count > 1 else []
    return found


def extractor(scenes: Iterable[Scene]) -> FakeModel:
    """Writes the drawing's tuples for its caption."""
    by_caption = {caption(scene): scene for scene in scenes}

    def write(prompt: Prompt) -> str:
        caption = prompt.suffix.removeprefix("Text: ").removesuffix("\nTuples:")
        return json.dumps(truth_tuples(by_caption[caption]))

    return FakeModel(writer=write, name="extractor")


def scripted_writer(
    scenes: Iterable[Scene], lies: bool = False, most: int | None = None
) -> FakeModel:
    """Writes the questions about each drawing, with true answers, or with lies after them."""
    by_caption = {caption(scene): scene for scene in scenes}

    def write(prompt: Prompt) -> str:
        caption = prompt.suffix.partition("\n")[0].removeprefix("Caption: ")
        asked = list(questions(by_caption[caption]))[:most]
        rows = [{"question": q.question, "answer": q.answer, "program": q.program} for q in asked]
        if lies:
            rows += [{"question": q.question, "answer": q.lie, "program": q.program} for q in asked]
        return f"```json\n{json.dumps(rows)}\n```"

    return FakeModel(writer=write, name="scripted")
