"""Ask people, blind, which of two models describes images better.

    python examples/packets.py runs/packet

Writes a folder to hand out, with a page per rater that opens by double click, and a key that stays
with you. Put what the two raters save into a folder ``answers``; then run

    posh-reward packets read runs/packet/pages.key.json answers/ --page runs/packet/result.html
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from posh_reward.cli import main as posh_reward

TEXTS = {
    "plain": "A man stands on the left. A vase stands in the middle.",
    "detailed": "A man in a white coat stands on the left. A large red vase stands in the middle.",
}
REFERENCE = "To our left, there is a man in a white coat. At the center, there is a large red vase."


def main(folder: Path) -> int:
    """Write the generations of both models, and a packet for two raters."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for model, text in TEXTS.items():
        rows = [
            {"id": number, "model": model, "generation": text, "reference": REFERENCE}
            for number in range(8)
        ]
        files.append(str(folder / f"{model}.jsonl"))
        Path(files[-1]).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pages = str(folder / "pages")
    raters = ["--coarse", "2", "--repeated", "1", "--times", "2"]
    return posh_reward(["packets", "make", *files, "-o", pages, *raters, "--no-images"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/packet")))
