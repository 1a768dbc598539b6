"""Render the drawings of docs/drawings with Graphviz.

    apt-get install graphviz
    python -m tools.drawings docs/drawings

Each ``NAME.dot`` becomes ``NAME.svg`` in the same folder.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path


def main() -> None:
    """Render every source of the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    for source in sorted(parser.parse_args().folder.glob("*.dot")):
        subprocess.run(
            ["dot", "-Tsvg", str(source), "-o", str(source.with_suffix(".svg"))], check=True
        )


if __name__ == "__main__":
    main()
