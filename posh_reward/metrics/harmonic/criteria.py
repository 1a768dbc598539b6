"""HarmonicEval's criteria, tasks and prompts (appendix C.1).

``prompts/paper.txt`` has the paper's prompts. The paper underlines words that change with the task;
our copy does not show the underlining, so we replace only the one that the text names: "caption",
which becomes "answer" in question answering. The paper prints neither the layout of the text nor
the request for a bare score: ``prompts/ours.txt``.
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
"""Captions; answers about images; answers about images of documents; referring expressions for the
object in an image's red box."""
TARGET: dict[Task, str] = {
    "captioning": "caption",
    "vqa": "answer",
    "vdu": "answer",
    "reg": "expression",
}
"""Task -> word for its texts in prompts."""
ANSWERS: tuple[Task, ...] = ("vqa", "vdu")  # tasks whose texts answer a question

CRITERIA = ("correctness", "completeness", "clarity", "fluency", "conciseness")
IMAGE_CRITERIA = ("correctness", "completeness")
"""Criteria judged with the image and the question; the others see the text alone (C.4)."""
EDITION = 1  # of our part of the wording: raise it with any change; signatures show it from 2 on
REASON_EDITION = 1  # of the request for a reason


@dataclass(frozen=True, slots=True)
class HarmonicItem:
    """One text to be judged."""

    text: str
    image: PromptImage | None = None  # None if no criterion uses it
    question: str = ""  # that the text answers, in tasks with questions

    @property
    def key(self) -> tuple[str, str, str]:
        """Key by which equal items are judged once."""
        return self.text, self.question, self.image.digest if self.image else ""


def check_task(task: str) -> Task:
    """Return ``task`` if it is known.

    Raises:
        InputError: it is not; the message lists the tasks.
    """
    if task not in TASKS:
        raise InputError(f"task is {task!r}: choose one of {', '.join(TASKS)}")
    return task


def check_criteria(criteria: Sequence[str]) -> tuple[str, ...]:
    """Return ``criteria`` if they are valid.

    Raises:
        InputError: there are none, or one is unknown or repeated.
    """
    unknown = [each for each in criteria if each not in CRITERIA]
    if isinstance(criteria, str) or not criteria or unknown:
        raise InputError(f"criteria is {criteria!r}: use a list of {', '.join(CRITERIA)}")
    if len(set(criteria)) < len(criteria):
        raise InputError(f"criteria is {list(criteria)}: name each once")
    return tuple(criteria)


def prompt(criterion: str, item: HarmonicItem, task: Task) -> Prompt:
    """Prompt for one criterion; all texts of a task share its prefix."""
    package = __package__ or ""
    target = TARGET[task]
    layout = sections(package, "ours")[target if criterion in IMAGE_CRITERIA else "text"]
    opening = sections(package, "paper")[criterion].format(target=target)
    own = "\n\n" + layout.format(text=item.text, question=item.question)
    if criterion not in IMAGE_CRITERIA or item.image is None:
        return Prompt(opening, own)
    return Prompt(opening, own, (item.image,))


def why(question: Prompt, score: int) -> Prompt:
    """Prompt that asks for the reason of a score, in the paper's words (section 4.3)."""
    request = sections(__package__ or "", "ours")["why"].format(score=score)
    return question._replace(suffix=f"{question.suffix}\n\n{request}")
