"""PROVE's prompts, and the writer's reply read into candidates (paper, Fig. 9)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posh_reward.metrics.metric import fill, wording
from posh_reward.metrics.prove.programs.language import BUILTINS, LONGEST
from posh_reward.metrics.prove.programs.program_scene import Nodes
from posh_reward.models.asker import Asker
from posh_reward.models.model import Prompt, savable
from posh_reward.types import Failure, PromptImage, Reply, Verdict

EDITION = "1"  # of the wording; signatures carry it. Raise it with any change of a prompt.
SPLIT = "---\n"  # ends the part of a prompt that many questions share


def prompt_of(name: str, values: Mapping[str, str], images: tuple[PromptImage, ...] = ()) -> Prompt:
    """The prompt of one file in ``prompts/``, its names in braces replaced in a single pass."""
    prefix, _, suffix = wording(__package__ or "", name).strip().rpartition(SPLIT)
    return Prompt(fill(prefix, values), fill(suffix, values), images)


def replies_of(asker: Asker, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    """The model's reply to each prompt."""
    with asker.awake(prompts):
        return asker.write(prompts, max_tokens)


def verdicts_of(asker: Asker, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
    """The model's distribution over the labels for each prompt."""
    with asker.awake(prompts):
        return asker.choose(prompts, labels)


LONGEST_REPLY = 6144  # tokens: fifteen questions with their programs take about 3,000
LONGEST_TEXT = 1000  # characters of a question, or of an answer
MOST_CANDIDATES = 50  # of one reply; the writer is asked for fifteen
LONGEST_READ = 100_000
"""Characters of a reply that are read: four times what ``LONGEST_REPLY`` tokens come to."""
MOST_READ = 10 * LONGEST_READ
"""Characters that are read in vain, over and over, for objects that do not end, before the rest of
the reply is given up."""
OPENING = re.compile(r'\{\s*["}]')  # the beginning of a JSON object
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, marks of direction, and halves of surrogate pairs, which cannot be saved."""
KEYS = ("question", "answer", "program")


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question as the writer gave it: nothing of it has been verified."""

    question: str
    answer: str
    program: str


def writing_prompt(caption: str, nodes: Nodes) -> Prompt:
    """The prompt that asks for questions about one image."""
    scene = json.dumps(nodes, ensure_ascii=False)
    values = {"caption": caption, "scene": scene, "builtins": ", ".join(BUILTINS)}
    return prompt_of("write", values)


def read_candidates(reply: str) -> list[QuestionCandidate | Failure]:
    """The candidates in a reply, one for each JSON object, whatever is around them.

    A reply that was cut off keeps those that are whole. One without any object is one failure.
    However the reply is built, reading it takes a bounded time.
    """
    reply = reply[:LONGEST_READ]
    decoder = json.JSONDecoder()
    candidates: list[QuestionCandidate | Failure] = []
    in_vain = place = 0
    while len(candidates) < MOST_CANDIDATES and in_vain < MOST_READ:
        opening = OPENING.search(reply, place)
        if opening is None:
            break
        try:
            value, place = decoder.raw_decode(reply, opening.start())
        except (ValueError, RecursionError) as error:
            # An error counts the lines before it, so it costs all that comes before.
            in_vain += error.pos if isinstance(error, json.JSONDecodeError) else LONGEST_READ
            place = opening.start() + 1
        else:
            candidates.append(read_candidate(value))
    return candidates or [Failure("reply", "the writer's reply has no JSON object")]


def read_candidate(value: object) -> QuestionCandidate | Failure:
    """The candidate in a JSON object; a failure if a text is missing or too long."""
    texts = [value.get(key) for key in KEYS] if isinstance(value, dict) else []
    question, answer, program = (each if isinstance(each, str) else "" for each in texts)
    question, answer = (UNSAFE.sub(" ", each).strip() for each in (question, answer))
    program = savable(program)
    if not (question and answer and program.strip()):
        return Failure("reply", "the object has no question, answer or program")
    if max(len(question), len(answer)) > LONGEST_TEXT or len(program) > LONGEST:
        return Failure("reply", "its question, answer or program is too long")
    return QuestionCandidate(question, answer, program.strip("\n"))
