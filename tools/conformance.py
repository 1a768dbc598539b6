"""Check graphs, questions and scores against the public release's.

    python -m tools.conformance GOLDENS.jsonl

Prints one line per claim; the exit status is 0 if every claim holds on every text.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from posh_reward.graph.reader import describe_doc
from posh_reward.posh.batch import run_batched
from posh_reward.posh.examine import Examination
from posh_reward.posh.means import harmonic_mean, mean_score
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import Pace
from posh_reward.types import SceneGraph
from tools.goldens import (
    SIDES,
    Golden,
    ReplayJudge,
    both_ways,
    expected_graph,
    load,
    read_golden,
    recorded_parse,
)

DIRECTIONS = ("precision", "recall")
GRADE_TOLERANCE = 1e-9


def elements(graph: SceneGraph) -> Iterator[tuple[object, ...]]:
    """Yield every entity, attribute and relation, with what identifies it in its text."""
    for entity in graph.entities:
        yield entity.heads, entity.sentences, entity.spans, entity.us, entity.left, entity.right
        for attribute in entity.attributes:
            yield entity.spans, attribute
    for relation in graph.relations:
        ends = graph.entities[relation.subject].spans, graph.entities[relation.object].spans
        yield *ends, relation.text, relation.source, relation.sentences, relation.spans


def check_graphs(goldens: Sequence[Golden]) -> bool:
    """Claim 1: the release's parses become the release's graphs."""
    from spacy.vocab import Vocab

    vocab = Vocab()
    equal = matched = ours = theirs = 0
    for golden in goldens:
        for side in SIDES:
            graph = describe_doc(*recorded_parse(golden, side, vocab)).graph
            release = expected_graph(golden, side)
            here, there = Counter(elements(graph)), Counter(elements(release))
            equal += graph == release
            matched += (here & there).total()
            ours += here.total()
            theirs += there.total()
            if graph != release:
                print(f"graph differs: {golden['id']} {side}")
    precision, recall, f1 = matched / ours, matched / theirs, 2 * matched / (ours + theirs)
    texts = len(goldens) * len(SIDES)
    print(
        f"graphs: {equal}/{texts} equal, "
        f"element precision/recall/F1 {precision:.4f}/{recall:.4f}/{f1:.4f} of {theirs}"
    )
    return equal == texts


def examine_pair(golden: Golden, *, pace: Pace) -> tuple[dict[str, Examination], ReplayJudge]:
    """Examine one pair in both directions, from the release's graphs."""
    judge = ReplayJudge(golden)
    steps = both_ways([read_golden(golden)], pace=pace)
    precision, recall = run_batched(steps, judge, Rewriter(judge))
    return {"precision": precision, "recall": recall}, judge


def check_questions(goldens: Sequence[Golden]) -> bool:
    """Claim 2: eager asking asks the release's questions, other paces some of them."""
    agreeing = eager_total = lazy_total = 0
    for golden in goldens:
        release = {direction: set(golden["grades"][direction]) for direction in DIRECTIONS}
        paces: tuple[Pace, ...] = ("eager", "batched", "lazy")
        # Batched and lazy asking skip questions whose answers can no longer matter; none is new.
        eager, batched, lazy = (examine_pair(golden, pace=pace)[1].texts for pace in paces)
        agrees = eager == release and all(lazy[d] <= batched[d] <= release[d] for d in DIRECTIONS)
        agreeing += agrees
        eager_total += sum(map(len, eager.values()))
        lazy_total += sum(map(len, lazy.values()))
        if not agrees:
            print(f"questions differ: {golden['id']}")
    print(
        f"questions: {agreeing}/{len(goldens)} pairs agree; {eager_total} asked eagerly, "
        f"{lazy_total} lazily"
    )
    return agreeing == len(goldens)


def check_scores(goldens: Sequence[Golden]) -> bool:
    """Claim 3: equal identifiers, presence, grades and scores, at any pace."""
    agreeing, largest = 0, 0.0
    for golden in goldens:
        examinations, _ = examine_pair(golden, pace="lazy")
        at_once, _ = examine_pair(golden, pace="batched")
        means = {d: mean_score(examinations[d].elements) for d in DIRECTIONS}
        ours = {**means, "f1": harmonic_mean(means["precision"], means["recall"])}
        gaps = [
            abs(value - golden["scores"][name]) if value is not None else math.inf
            for name, value in ours.items()
        ]
        largest = max(largest, *gaps)
        agrees = max(gaps) <= GRADE_TOLERANCE and at_once == examinations
        agrees &= all(
            findings_agree(examinations[d], golden["kept"][d])
            and elements_agree(examinations[d], golden["elements"][d])
            for d in DIRECTIONS
        )
        agreeing += agrees
        if not agrees:
            print(f"scores differ: {golden['id']}")
    print(f"scores: {agreeing}/{len(goldens)} pairs agree, largest difference {largest:.1e}")
    return agreeing == len(goldens)


def findings_agree(examination: Examination, rows: Sequence[dict[str, Any]]) -> bool:
    """Return True if each entity has the release's identifier, presence and grade."""
    pairs = ((examination.matches[row["entity"]], row) for row in rows)
    return len(examination.matches) == len(rows) and all(
        (finding.identifier, finding.present) == (row["identifier"], row["present"])
        and abs(finding.grade - row["grade"]) <= GRADE_TOLERANCE
        for finding, row in pairs
    )


def elements_agree(examination: Examination, rows: Sequence[dict[str, Any]]) -> bool:
    """Return True if the mean has the release's elements and grades, in its order."""
    ours = examination.elements
    return len(ours) == len(rows) and all(
        element.kind == row["kind"]
        and (element.kind != "attribute" or element.text == row["text"])
        and element.grade is not None
        and abs(element.grade - row["grade"]) <= GRADE_TOLERANCE
        for element, row in zip(ours, rows, strict=True)
    )


def main() -> int:
    """Check every claim, also after one has failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    goldens = load(parser.parse_args().goldens)
    holds = [claim(goldens) for claim in (check_graphs, check_questions, check_scores)]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
