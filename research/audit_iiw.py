"""The audit of references against people's side-by-side judgments of IIW descriptions.

    python -m research.audit_iiw ../shared/data/iiw/iiw_400_dev.jsonl

People compared a human text (``IIW``) with a model's (``IIW-P5B``) about the same image. Of the
pairs in which they preferred one as more comprehensive (more specific), the share in which the
preferred text has more details, more words, or more details per 100 words; 95 % intervals by
bootstrap over pairs. Then what the audit finds among all human and all model texts.

Data: ImageInWords, google/imageinwords, CC BY 4.0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posh_reward.audit.reference_audit import Audit, Reference, audit_texts
from posh_reward.graph.reader import Reader
from posh_reward.tables.statistics import bootstrap_mean

Row = dict[str, Any]
Measure = Callable[[Reference], float]
HUMAN, MODEL, JUDGMENTS = "IIW", "IIW-P5B", "iiw-human-sxs-iiw-p5b"
DEGREES = {"marginally": 1, "substantially": 2}
AXES = ("Comprehensiveness", "Specificity")
MEASURES: dict[str, Measure] = {
    "details": lambda each: each.details,
    "words": lambda each: len(each.text.split()),
    "details per 100 words": lambda each: each.rate,
}


def label(verdict: str) -> int:
    """Convert a verdict, such as ``IIW-P5B is marginally better``, to -2 to 2: here 1."""
    if verdict == "Neutral":
        return 0
    side, _, degree, _ = verdict.split(" ")
    return DEGREES[degree] * (1 if side == MODEL else -1)


def main(path: str) -> None:
    """Print the results file."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    judged = [row for row in rows if row.get(MODEL) and row.get(JUDGMENTS)]
    reader = Reader()
    texts = {
        "human, all": [row[HUMAN] for row in rows],
        "human, judged": [row[HUMAN] for row in judged],
        "model, judged": [row[MODEL] for row in judged],
    }
    audits = {name: audit_texts([[text] for text in some], reader) for name, some in texts.items()}
    print("# Audit of references on IIW\n")
    print(f"`{Path(__file__).name}` on {len(rows)} rows, of which people compared {len(judged)}.\n")
    print("| the preferred text has more | of pairs by Comprehensiveness | by Specificity |")
    print("| --- | --- | --- |")
    for name, measure in MEASURES.items():
        cells = [agreement(axis, measure, judged, audits) for axis in AXES]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| texts | number | median details | per 100 words | problems |\n" + "| --- " * 5 + "|")
    for name, each in audits.items():
        middle = sorted(each.references, key=lambda one: one.details)[len(each.references) // 2]
        rate = sorted(one.rate for one in each.references)[len(each.references) // 2]
        problems = ", ".join(f"{kind} {n}" for kind, n in sorted(each.counts.items())) or "none"
        print(f"| {name} | {len(each.references)} | {middle.details} | {rate:.0f} | {problems} |")
    print("\nWhat a policy would learn to omit, among all human texts:\n")
    print("\n".join(f"- {each}" for each in audits["human, all"].omissions))


def agreement(axis: str, measure: Measure, judged: list[Row], audits: dict[str, Audit]) -> str:
    """Share of decided pairs in which the preferred text has more; a tie counts half."""
    won = []
    pairs = zip(*(audits[f"{who}, judged"].references for who in ("human", "model")), strict=True)
    for row, (human, model) in zip(judged, pairs, strict=True):
        verdict = label(row[JUDGMENTS][f"metrics/{axis}"])
        difference = measure(model) - measure(human)
        if verdict:
            won.append(0.5 if not difference else float((difference > 0) == (verdict > 0)))
    return f"{bootstrap_mean(won)} of {len(won)}"


if __name__ == "__main__":
    main(*sys.argv[1:])
