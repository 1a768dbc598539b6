"""Every word that a rater reads: one vocabulary for the page, Label Studio and the guide."""

from __future__ import annotations

from dataclasses import dataclass

from posh_reward.study.packets.study_records import Form


@dataclass(frozen=True, slots=True)
class RaterQuestion:
    """One question about two generations."""

    axis: str
    """Its name in ``posh_reward.study.rows.scored.AXES``."""
    title: str
    text: str


QUESTIONS = (
    RaterQuestion(
        "mistakes",
        "Significant mistakes",
        "Which description makes fewer significant mistakes?",
    ),
    RaterQuestion(
        "omissions",
        "Missing details",
        "With the mistakes corrected in your mind: which description leaves out less of the "
        "correct description?",
    ),
    RaterQuestion(
        "overall",
        "Overall quality",
        "Which description would you rather have in place of the correct description?",
    ),
)
BETTER = {
    "mistakes": "fewer mistakes",
    "omissions": "fewer missing details",
    "overall": "better overall",
}
"""By axis, what a preference means."""
CHOICES = {
    2: "#1 much better",
    1: "#1 slightly better",
    0: "Equal",
    -1: "#2 slightly better",
    -2: "#2 much better",
}
"""By preference; 2 means that the first is much better."""
SIDES = {
    "mistakes": ("Mark the words that are not true of the image.", "Mistakes",
                 "There are no mistakes"),
    "omissions": ("Mark the words whose detail the generated description leaves out.",
                  "Missing details", "Nothing is missing"),
}  # fmt: skip
"""Of granular tasks: what to mark, what the marks are called, and what a rater confirms who marks
nothing."""
REFERENCE, GENERATION = "Correct description", "Generated description"
TITLES: dict[Form, str] = {
    "coarse": "Compare two descriptions of an image",
    "granular": "Mark mistakes and missing details",
}
STEPS: dict[Form, tuple[str, ...]] = {
    "coarse": (
        "Look at the image: who and what is in it, what happens, where.",
        "Read the correct description. Treat it as true and complete.",
        "Read the two generated descriptions, #1 and #2. Either may come from any program, and "
        "which of them is #1 changes from task to task.",
        "Significant mistakes: details that are not true of the image, such as a wrong thing, a "
        "wrong colour, or the right thing in the wrong place.",
        "Missing details: details of the correct description that a generated description leaves "
        "out. Correct its mistakes in your mind first: calling a woman a man is a mistake, but the "
        "person is not missing.",
        "Overall quality: which of the two would serve someone better who cannot see the image. "
        "This one is for you to weigh.",
    ),
    "granular": (
        "Look at the image: who and what is in it, what happens, where.",
        "Read the correct description. Treat it as true and complete.",
        "Read the generated description.",
        "Mark the mistakes in the generated description: the fewest words that are not true of the "
        "image, such as a wrong thing, a wrong colour, or a wrong place.",
        "Mark what is missing in the correct description: the fewest words whose detail the "
        "generated description does not have. Correct its mistakes in your mind first: calling a "
        "woman a man is a mistake, but the person is not missing.",
        "If there is nothing to mark, say so in the box under the text.",
    ),
}
HOW_TO_MARK = (
    "To mark words, drag the mouse over them; or choose the first word and then the last one (the "
    "same word twice marks it alone), by clicking, by tapping, or with the arrow keys and Enter. "
    "Choose a marked word to remove its mark. Escape cancels a mark that you have begun."
)
SUGGESTED = (
    "Some words are marked already: a program suggests them. It is often wrong. Remove what you "
    "do not agree with, and add what it has not seen."
)
NO_IMAGE = "There are no images in this study: judge by the correct description alone."
KEEPING = (
    "Your answers stay in this browser as you go. You can close the page and go on later, in the "
    "same browser. When you are done, save them to a file and send that file back. Nothing is sent "
    "from this page by itself."
)


def instructions(form: Form, *, images: bool, suggested: bool) -> tuple[str, ...]:
    """What a rater is told to do, step by step."""
    steps = STEPS[form]
    if not images:
        steps = (NO_IMAGE, *steps[1:])
    return (*steps, SUGGESTED) if suggested else steps
