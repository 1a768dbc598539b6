"""What another run needs to reproduce a score, in one line (after sacrebleu)."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from posh_reward.judge.questions import PRESENT
from posh_reward.metric.aggregate import EQUAL, Weights


@cache
def package_version() -> str:
    """Our own version, or "unknown" when run from a folder that was never installed."""
    try:
        return version("posh-reward")
    except PackageNotFoundError:
        return "unknown"


def signature(preset: str, judge: str, parser: str, coref: str, weights: Weights = EQUAL) -> str:
    """``posh|preset:released|judge:...|parser:...|coref:...|present:2|version:...``."""
    fields = {
        "preset": preset,
        "judge": judge,
        "parser": parser,
        "coref": coref,
        "present": f"{PRESENT:g}",
    }
    if weights != EQUAL:
        fields["weights"] = f"{weights.entity:g},{weights.attribute:g},{weights.relation:g}"
    fields["version"] = package_version()
    return "posh|" + "|".join(f"{key}:{value}" for key, value in fields.items())
