"""Benefit and cost of a witness where references leave details out.

    python -m research.witness_study --docs research/results/witness.md --page witness.html

Drawn images with texts of known truth: each describes a copy of the scene in which some details are
missing and some are false. Precision should rank the texts by the share of their details that are
true of the drawing. It is compared without a witness and with the oracle at several bars, against
references by annotators of varying diligence (``uneven``) and against full ones. The oracle is
asked about everything once; the scores at each bar follow exactly, since the bar only decides which
answers count. As real witnesses err, one that flips some of the oracle's answers is tried as well.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from posh_reward import PoSh
from posh_reward.datasets.scenes import Scene, caption, draw_scene, generate_scenes, uneven_caption
from posh_reward.pages.element_marks import PairCard, render_pairs
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.posh.means import mean_score
from posh_reward.tables.statistics import (
    Floats,
    Ints,
    bootstrap,
    bootstrap_mean,
    kendall,
    paired_difference,
    spearman,
)
from posh_reward.types import HIGHEST_GRADE, Element, Scores
from research.tables import Table, write_between
from research.witness_study.scene_texts import ErringWitness, SceneText, scene_texts, texts_of

NEVER = 1.0
BARS = (2.0, 3.0, 4.0, 5.0)
"""Grades against the reference below which the image is consulted."""
ERRORS = (0.1, 0.2, 0.3)  # shares of the answers that an erring witness flips
REFERENCES: dict[str, Callable[[Scene], str]] = {"uneven": uneven_caption, "full": caption}


@dataclass(frozen=True)
class Case:
    """All texts, scored against one kind of reference with one witness."""

    kind: str
    errs: float
    texts: Sequence[SceneText]
    scores: Sequence[Scores]


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", type=Path, help="write the default bar's rows there")
    parser.add_argument("--page", type=Path, help="write a page with marked texts there")
    flags = parser.parse_args(argv)
    cases = study(flags.limit, flags.seed)
    full = table(cases)
    print(full)
    if flags.docs:
        write_between(flags.docs, "witness", str(at_default_bar(full)))
    if flags.page:
        scenes = images(flags.limit, flags.seed)
        text = marks_page(scenes, oracle(flags.limit, flags.seed))
        flags.page.write_text(text, encoding="utf-8")


def images(count: int, seed: int) -> list[Scene]:
    """Return the scenes to draw."""
    return list(generate_scenes("test", count, seed))


def oracle(count: int, seed: int) -> str:
    """Name the witness that knows the drawn scenes."""
    return f"scenes:train=0:heldout={count}:seed={seed}"


def study(count: int, seed: int) -> list[Case]:
    """Score all texts, with the witness asked about everything."""
    scenes = images(count, seed)
    texts = scene_texts(scenes)
    drawings = [draw_scene(scene) for scene in scenes]

    def scores_of(kind: str, errs: float) -> list[Scores]:
        posh = PoSh(witness=ErringWitness(oracle(count, seed), errs), supported=HIGHEST_GRADE)
        return posh.score(
            [each.text for each in texts],
            [REFERENCES[kind](scenes[each.image]) for each in texts],
            [drawings[each.image] for each in texts],
        )

    kinds = [(kind, rate) for rate in (0.0, *ERRORS) for kind in REFERENCES]
    return [Case(kind, errs, texts, scores_of(kind, errs)) for kind, errs in kinds]


def at_bar(scores: Scores, bar: float) -> list[Element]:
    """Return the generation's elements as graded with this bar."""
    elements = [element for element in scores.elements if element.direction == "precision"]
    return [
        replace(e, grade=e.image_grade.reference_grade, image_grade=None)
        if e.image_grade is not None and e.image_grade.reference_grade >= bar
        else e
        for e in elements
    ]


def precision(elements: Sequence[Element]) -> float:
    """Return the mean score of the elements."""
    score = mean_score(elements)
    assert score is not None, "neither the embedded judge nor the oracle ever fails"
    return score


def table(cases: Sequence[Case]) -> Table:
    """Return a table with a row per case and bar."""
    head = [
        "references", "witness errs", "asked below", "of the image, a pair",
        "true details below 3", "tau within an image", "more than without", "rho over all",
        "more than without",
    ]  # fmt: skip
    sure = {case.kind: case for case in cases if not case.errs}
    rows = [
        line(case, bar, sure[case.kind])
        for case in cases
        for bar in ((MIN_SUPPORTED_GRADE,) if case.errs else (NEVER, *BARS))
    ]
    return Table(head, rows)


def at_default_bar(whole: Table) -> Table:
    """Return the rows without a witness and at the default bar, without overall correlations."""
    rows = [row for row in whole.rows if row[2] in ("never", f"{MIN_SUPPORTED_GRADE:g}")]
    head, *lines = [[*row[:2], *row[3:7]] for row in (whole.head, *rows)]
    return Table(head, [[kind, errs or "no witness", *rest] for kind, errs, *rest in lines])


def line(case: Case, bar: float, sure: Case) -> list[str]:
    """Return one row: correlations of precision with truth, and the witness's gains."""
    graded = [at_bar(each, bar) for each in case.scores]
    before = np.array([precision(at_bar(each, NEVER)) for each in case.scores])
    after = np.array([precision(each) for each in graded])
    true = np.array([each.truth for each in case.texts])
    groups = [each.image for each in case.texts]

    def measure(rows: Ints) -> Sequence[float]:
        rho, rho_before = (spearman(scores[rows], true[rows]) for scores in (after, before))
        return rho, rho - rho_before

    rho, more_rho = bootstrap(measure, groups)
    within, within_before = (by_image(values, true, groups) for values in (after, before))
    tau, more_tau = bootstrap_mean(within), paired_difference(within, within_before)
    questions = fmean(sum(e.image_grade is not None for e in each) for each in graded)
    never = bar == NEVER
    return [
        case.kind,
        "" if never else f"{100 * case.errs:.0f} %",
        "never" if never else f"{bar:g}",
        f"{questions:.1f}",
        f"{100 * fmean(below(graded, sure.scores)):.1f} %",
        f"{tau.mean:.3f} [{tau.low:.3f}, {tau.high:.3f}]",
        "" if never else str(more_tau),
        f"{rho.value:.3f} [{rho.low:.3f}, {rho.high:.3f}]",
        "" if never else f"{more_rho.value:+.3f} [{more_rho.low:+.3f}, {more_rho.high:+.3f}]",
    ]


def by_image(scores: Floats, true: Floats, groups: Sequence[int]) -> list[float]:
    """Return Kendall's tau of each image's texts; 0 where all have the same score."""
    places = np.array(groups)
    taus = [kendall(scores[places == each], true[places == each]) for each in sorted(set(groups))]
    return [0.0 if np.isnan(tau) else tau for tau in taus]


def below(graded: Iterable[Sequence[Element]], sure: Iterable[Scores]) -> Iterator[float]:
    """Yield for each element that the drawing supports 1 if it is graded below 3, else 0."""
    for elements, scores in zip(graded, sure, strict=True):
        for element, at in zip(elements, at_bar(scores, HIGHEST_GRADE), strict=True):
            if at.image_grade is not None and at.image_grade.grade == HIGHEST_GRADE:
                yield float((element.grade or 0.0) < MIN_SUPPORTED_GRADE)


def marks_page(scenes: Sequence[Scene], witness: str) -> str:
    """Write a page with texts of two false details, judged without and with the image."""
    examples = [scene for scene in scenes if uneven_caption(scene) != caption(scene)][:3]
    texts = [caption(list(texts_of(scene))[2]) for scene in examples]
    items = []
    for scene, text in zip(examples, texts, strict=True):
        for posh, name in ((PoSh(), "reference alone"), (PoSh(witness=witness), "and the image")):
            [scores] = posh.score([text], [uneven_caption(scene)], [draw_scene(scene)])
            items.append(PairCard(f"{scene.uid}, {name}", scores, png(scene)))
    return render_pairs(items, "Two false details in each text", in_pairs=True)


def png(scene: Scene) -> bytes:
    """Return the drawing as PNG, enlarged."""
    buffer = io.BytesIO()
    draw_scene(scene, 3).save(buffer, "png")
    return buffer.getvalue()


if __name__ == "__main__":
    main()
