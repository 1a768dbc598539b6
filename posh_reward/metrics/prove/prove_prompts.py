"""PROVE's prompts, and the reader of the writer's reply (paper, Fig. 9)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posh_reward.metrics.metric import fill, wording
from posh_reward.metrics.prove.program_language import BUILTINS, LONGEST, Nodes
from posh_reward.models.asker import Asker
from posh_reward.models.model import Prompt, savable
from posh_reward.types import Failure, PromptImage, Reply, Verdict

EDITION = "1"  # of the wording, in signatures: raise it with any change of a prompt
SPLIT = "---\n"  # ends the prefix that many prompts share


def prompt_of(name: str, values: Mapping[str, str], images: tuple[PromptImage, ...] = ()) -> Prompt:
    """Fill in the prompt ``prompts/NAME.txt``."""
    prefix, _, suffix = wording("metrics/prove", name).strip().rpartition(SPLIT)
    return Prompt(fill(prefix, values), fill(suffix, values), images)


def replies_of(asker: Asker, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    """The model's reply to each prompt."""
    with asker.awake(prompts):
        return asker.write(prompts, max_tokens)


def verdicts_of(asker: Asker, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
    """The model's distribution over the labels for each prompt."""
    with asker.awake(prompts):
        return asker.choose(prompts, labels)


LONGEST_REPLY = 6144  # tokens; fifteen questions with programs take about 3,000
LONGEST_TEXT = 1000  # characters of a question or an answer
MOST_CANDIDATES = 50  # per reply; the prompt asks for fifteen
LONGEST_READ = 100_000
"""Characters; the rest of a reply is ignored. Four times the length of ``LONGEST_REPLY`` tokens."""
MOST_READ = 10 * LONGEST_READ
"""Characters read of unfinished objects before the rest of a reply is ignored."""
OPENING = re.compile(r'\{\s*["}]')  # start of a JSON object
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, direction marks, and lone surrogates, which cannot be encoded."""
KEYS = ("question", "answer", "program")


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """An unverified question from the writer."""

    question: str
    answer: str
    program: str


def writing_prompt(caption: str, nodes: Nodes) -> Prompt:
    """Prompt that asks for questions about one image."""
    scene = json.dumps(nodes, ensure_ascii=False)
    values = {"caption": caption, "scene": scene, "builtins": ", ".join(BUILTINS)}
    return prompt_of("write", values)


def read_candidates(reply: str) -> list[QuestionCandidate | Failure]:
    """Read one candidate per JSON object in a reply; any text between objects is ignored.

    A truncated reply yields its complete objects, one without objects a single failure. Time is
    bounded for any reply.
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
            # JSONDecodeError counts lines from the start, so each costs up to its position.
            in_vain += error.pos if isinstance(error, json.JSONDecodeError) else LONGEST_READ
            place = opening.start() + 1
        else:
            candidates.append(read_candidate(value))
    return candidates or [Failure("reply", "the writer's reply has no JSON object")]


def read_candidate(value: object) -> QuestionCandidate | Failure:
    """Read a candidate from a JSON object; a failure if a text is missing or too long."""
    texts = [value.get(key) for key in KEYS] if isinstance(value, dict) else []
    question, answer, program = (each if isinstance(each, str) else "" for each in texts)
    question, answer = (UNSAFE.sub(" ", each).strip() for each in (question, answer))
    program = savable(program)
    if not (question and answer and program.strip()):
        return Failure("reply", "the object has no question, answer or program")
    if max(len(question), len(answer)) > LONGEST_TEXT or len(program) > LONGEST:
        return Failure("reply", "its question, answer or program is too long")
    return QuestionCandidate(question, answer, program.strip("\n"))
