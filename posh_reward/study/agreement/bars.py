"""Progress bars on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bars:
    """Progress bars on standard error."""

    quiet: bool
    made: list[Any] = field(default_factory=list)

    def bar(self, name: str, total: int, unit: str) -> Callable[[int], None]:
        """Counts up to a total; told how many more are done."""
        from tqdm import tqdm

        bar = tqdm(desc=name, total=total, unit=unit, disable=self.quiet, file=sys.stderr)
        self.made.append(bar)

        def advance(done: int) -> None:
            bar.update(done)

        return advance

    def close(self) -> None:
        """Ends the bars."""
        for bar in self.made:
            bar.close()
