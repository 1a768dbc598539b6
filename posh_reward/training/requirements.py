"""Packages that a run needs: which are missing, and which have an untested version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from posh_reward.errors import install
from posh_reward.graph.coref.maverick import setup_command
from posh_reward.metrics.posh.judges.load_judge import engine_settings
from posh_reward.training.fetch import graph_assets, is_here
from posh_reward.training.processes import Processes

PACKAGE = "posh-reward"
EXTRAS = ("train", "vllm", "server", "gpu")
"""Extras whose version bounds apply to a run, besides the package's own requirements."""
ENGINES = {"vllm": ("vllm", "gpu"), "server": ("httpx", "server")}
"""Name of a judge in settings -> its package, and the extra that installs it."""


def missing_packages(
    args: Any, model: Any, metric: Mapping[str, Any], layout: Processes
) -> Iterator[str]:
    """Yield what a run needs and is not installed here, each with the remedy."""
    needs = {"trl": ("training", "train")}
    if getattr(args, "use_vllm", False):
        needs["vllm"] = ("use_vllm", "gpu")
    if layout.zero_stage:
        needs["deepspeed"] = (f"ZeRO-{layout.zero_stage}", "gpu")
    for tracker in {"wandb", "trackio"} & set(args.report_to or ()):
        needs[tracker] = (f"report_to {tracker}", "gpu")
    for role in ("judge", "witness"):
        for user, engine in engine_settings(metric.get(role), role):
            # A judge with its own interpreter has its package there.
            if engine["name"] in ENGINES and not engine.get("python"):
                package, extra = ENGINES[engine["name"]]
                needs.setdefault(package, (f"the {user}", extra))
    for package, (user, extra) in needs.items():
        if find_spec(package) is None:
            yield f"{package}, for {user}: {install(extra)}"
    if model.attn_implementation == "flash_attention_2" and find_spec("flash_attn") is None:
        yield "flash-attn, for attn_implementation: install it, or leave the setting out"
    for asset in graph_assets(metric):
        if asset.kind == "spacy" and not is_here(asset):
            yield f"{asset.name}, for the parser: python -m spacy download {asset.name}"
        elif asset.kind == "environment" and not is_here(asset):
            yield f"Maverick, for coref: {setup_command(Path(asset.name))}"


def wrong_versions() -> Iterator[str]:
    """Yield packages whose installed version is outside the tested range, with the remedy."""
    from packaging.requirements import Requirement

    for line in metadata.requires(PACKAGE) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": each}) for each in EXTRAS):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            continue  # missing_packages names it, if this run needs it
        if not requirement.specifier.contains(version, prereleases=True):
            yield (
                f"{requirement.name} {version} is installed: "
                f"pip install '{requirement.name}{requirement.specifier}'"
            )
