"""What the writer of questions is asked, and how its reply is read (paper, Fig. 9)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from posh_reward.metrics.prove.asking import prompted
from posh_reward.metrics.prove.programs.language import BUILTINS, LONGEST
from posh_reward.metrics.prove.programs.scene import Nodes
from posh_reward.models.base import Prompt, savable
from posh_reward.types import Failure

LONGEST_REPLY = 6144
"""Tokens: fifteen questions with their programs take about 3,000."""
LONGEST_TEXT = 1000
"""Characters of a question, or of an answer."""
MOST_CANDIDATES = 50
"""Of one reply; the writer is asked for fifteen."""
KEYS = ("question", "answer", "program")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question as the writer gave it: nothing of it has been verified."""

    question: str
    answer: str
    program: str


def writing_prompt(caption: str, nodes: Nodes) -> Prompt:
    """Asks for questions about one picture."""
    scene = json.dumps(nodes, ensure_ascii=False)
    values = {"caption": caption, "scene": scene, "builtins": ", ".join(BUILTINS)}
    return prompted("write", values)


def read_candidates(reply: str) -> list[Candidate | Failure]:
    """The candidates in a reply, one for each JSON object, whatever is around them.

    A reply that was cut off keeps those that are whole. One without any object is one failure.
    """
    decoder = json.JSONDecoder()
    found: list[Candidate | Failure] = []
    place = reply.find("{")
    while place >= 0 and len(found) < MOST_CANDIDATES:
        try:
            value, end = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            place = reply.find("{", place + 1)
            continue
        found.append(_candidate(value))
        place = reply.find("{", end)
    return found or [Failure("reply", "the writer's reply has no JSON object")]


def _candidate(value: object) -> Candidate | Failure:
    texts = [value.get(key) if isinstance(value, dict) else None for key in KEYS]
    question, answer, program = (savable(each) if isinstance(each, str) else "" for each in texts)
    if not (question.strip() and answer.strip() and program.strip()):
        return Failure("reply", "the writer's object has no question, answer or program")
    if max(len(question), len(answer)) > LONGEST_TEXT or len(program) > LONGEST:
        return Failure("reply", "the writer's question, answer or program is too long")
    return Candidate(question.strip(), answer.strip(), program.strip("\n"))
