"""Rubric -> prompt that asks for its points (appendix A.5).

The paper's prompt labels its criteria "(0-1)" although their points differ: we omit that. The paper
does not print its JSON form, so the form is ours.
"""

from __future__ import annotations

import json
from hashlib import sha256

from posh_reward.metrics.metric import sections
from posh_reward.metrics.rubric.rubric import Example, Rubric, RubricMetric
from posh_reward.models.model import Prompt

EDITION = 1  # of the wording: raise it with any change; signatures show it from 2 on
LONGEST_QUOTE = 2_000  # characters of an unusable reply quoted back to the judge
NO_QUESTION = "Describe the image."  # if neither the call nor the rubric has a question


def opening(rubric: Rubric) -> str:
    """Beginning shared by all prompts of a rubric."""
    return _section("judge").format(
        opening=rubric.opening,
        criteria="\n\n".join(_criterion(n, m) for n, m in enumerate(rubric.metrics, start=1)),
        steps="\n".join(f"{n}. {step}" for n, step in enumerate(rubric.steps, start=1)),
        form=form(rubric),
        examples="\n\n".join(_example(rubric, example) for example in rubric.examples),
    )


def digest(opening_text: str, rubric: Rubric) -> str:
    """Eight hexadecimal digits that change with the text of a rubric's prompts."""
    return sha256(f"{opening_text}\0{rubric.question}".encode()).hexdigest()[:8]


def prompt(
    opening_text: str, rubric: Rubric, answer: str, truth: str, question: str | None
) -> Prompt:
    """Prompt that asks for the points of one answer; ``opening_text`` comes from ``opening``."""
    return Prompt(opening_text, "\n\n" + _item(rubric, answer, truth, question))


def repair(question: Prompt, reply: str, reason: str) -> Prompt:
    """Prompt that quotes an unusable reply with the reason, and asks again."""
    request = _section("repair").format(reply=reply[:LONGEST_QUOTE], reason=reason)
    return question._replace(suffix=f"{question.suffix}\n\n{request}")


def form(rubric: Rubric) -> str:
    """JSON form that a reply must have."""
    lines = (
        f'  "{metric.name}": {{"score": <one of {", ".join(map(str, sorted(metric.points)))}>, '
        '"feedback": "<why>"}'
        for metric in rubric.metrics
    )
    return "{\n" + ",\n".join(lines) + "\n}"


def _criterion(number: int, metric: RubricMetric) -> str:
    head = f"{number}. {metric.name}: {metric.title} ({metric.lowest}-{metric.highest} points)"
    points_lines = (
        f"   - {points} point{'' if points == 1 else 's'}: {text}"
        for points, text in metric.points.items()
    )
    return "\n".join((head, *points_lines))


def _example(rubric: Rubric, example: Example) -> str:
    reply = {
        metric.name: {
            "score": example.scores[metric.name],
            "feedback": example.feedback[metric.name],
        }
        for metric in rubric.metrics
    }
    item = _item(rubric, example.answer, example.truth, example.question)
    return f"{item}\n{_section('reply').format(reply=json.dumps(reply, ensure_ascii=False))}"


def _item(rubric: Rubric, answer: str, truth: str, question: str | None) -> str:
    question = question or rubric.question or NO_QUESTION
    return _section("item").format(question=question, truth=truth, answer=answer)


def _section(name: str) -> str:
    return sections(__package__ or "", "paper")[name]
