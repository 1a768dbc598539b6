"""Score a description, and print what lowers its scores.

    python examples/score.py

The description has two wrong attributes (a *short* man in a *brown* coat) and omits a person, as
elements with a grade below 3 show. Nothing is downloaded: parser, coreference resolver and judge
ship with the package. ``PoSh("vllm")`` asks Qwen3-14B instead.
"""

from __future__ import annotations

from posh_reward import PoSh

GENERATION = "A short man in a brown coat sleeps."
REFERENCE = (
    "A tall woman in a red dress stands to our left. A man in a green coat sleeps beside her."
)


def main() -> None:
    """Print the three scores, then each element that is missing from the other text."""
    [scores] = PoSh().score([GENERATION], [REFERENCE])
    if scores.failure is not None:
        raise SystemExit(f"not scored: {scores.failure}")
    print(f"precision {scores.precision:.3f}  recall {scores.recall:.3f}  f1 {scores.f1:.3f}")
    for element in scores.elements:
        if element.grade is not None and element.grade < 3:
            place = "the reference" if element.direction == "precision" else "the description"
            print(f"{element.grade:.1f}  {element.kind:9}  {element.text!r} is not in {place}")
    print(scores.signature)


if __name__ == "__main__":
    main()
