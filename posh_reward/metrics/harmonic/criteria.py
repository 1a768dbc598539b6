"""HarmonicEval's criteria, tasks and prompts (appendix C.1).

``prompts/paper.txt`` has the paper's prompts. It underlines the words that change with the task,
which our copy does not show, and names one: "caption", for which it puts "answer" in question
answering. So that word alone is replaced. How the text itself is shown, and that only a score is
wanted, is not printed there: ``prompts/ours.txt``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from posh_reward.errors import InputError
from posh_reward.metrics.metric import sections
from posh_reward.models.model import Prompt
from posh_reward.types import PromptImage

Task = Literal["captioning", "vqa", "vdu", "reg"]
TASKS: tuple[Task, ...] = get_args(Task)
"""Captions; answers to questions about images; answers about images of documents; expressions
that tell what stands in an image's red box."""
TARGET: dict[Task, str] = {
    "captioning": "caption",
    "vqa": "answer",
    "vdu": "answer",
    "reg": "expression",
}
"""Task -> what its texts are called in prompts."""
ANSWERS: tuple[Task, ...] = ("vqa", "vdu")  # tasks whose texts answer a question

CRITERIA = ("correctness", "completeness", "clarity", "fluency", "conciseness")
IMAGE_CRITERIA = ("correctness", "completeness")
"""Criteria that are judged with the image and the question in view; the others see the text
alone (C.4)."""
EDITION = 1
"""Of our part of the wording: raised with any change of it, since signatures carry it from 2 on."""
REASON_EDITION = 1  # of the question for a reason


@dataclass(frozen=True, slots=True)
class HarmonicItem:
    """One text to be judged."""

    text: str
    image: PromptImage | None = None  # None if no criterion needs it
    question: str = ""  # answered by the text, in tasks that have questions

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal texts about equal images have the same."""
        return self.text, self.question, self.image.digest if self.image else ""


def check_task(task: str) -> Task:
    """Return ``task`` if it is one.

    Raises:
        InputError: it is not; the message lists those there are.
    """
    if task not in TASKS:
        raise InputError(f"task is {task!r}: choose one of {', '.join(TASKS)}")
    return task


def check_criteria(criteria: Sequence[str]) -> tuple[str, ...]:
    """Return ``criteria`` if they can be asked.

    Raises:
        InputError: there are none, one is unknown, or one comes twice.
    """
    unknown = [each for each in criteria if each not in CRITERIA]
    if isinstance(criteria, str) or not criteria or unknown:
        raise InputError(f"criteria is {criteria!r}: give a list of {', '.join(CRITERIA)}")
    if len(set(criteria)) < len(criteria):
        raise InputError(f"criteria is {list(criteria)}: name each once")
    return tuple(criteria)


def prompt(criterion: str, item: HarmonicItem, task: Task) -> Prompt:
    """The message that asks for one criterion; its prefix is the same for all texts of a task."""
    package = __package__ or ""
    target = TARGET[task]
    layout = sections(package, "ours")[target if criterion in IMAGE_CRITERIA else "text"]
    opening = sections(package, "paper")[criterion].format(target=target)
    own = "\n\n" + layout.format(text=item.text, question=item.question)
    if criterion not in IMAGE_CRITERIA or item.image is None:
        return Prompt(opening, own)
    return Prompt(opening, own, (item.image,))


def why(question: Prompt, score: int) -> Prompt:
    """The message that asks for the reason of a score, in the paper's words (section 4.3)."""
    request = sections(__package__ or "", "ours")["why"].format(score=score)
    return question._replace(suffix=f"{question.suffix}\n\n{request}")
