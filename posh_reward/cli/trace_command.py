"""``posh-reward trace``: results -> packets -> scores -> descriptions -> weights -> runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from posh_reward.cli import OK, UNUSABLE, options
from posh_reward.errors import InputError, safe
from posh_reward.models.hub import weights_fingerprint
from posh_reward.provenance import ORIGIN, UNKNOWN, Origin, Origins, read_origin
from posh_reward.run_record import RunRecord, read_run

TRACE = """\
Follow a file back to what it was made of, and check each step that can be checked here: results and
keys of packets, scores, descriptions, a model's folder or a checkpoint. Exit status 0 if nothing
contradicts it; steps without a record, such as those of version 0.1, are named."""
TABLES = (".jsonl", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class Link:
    """One step of the chain: a file, or a model."""

    what: str
    place: str
    facts: dict[str, str] = field(default_factory=dict)
    problem: str | None = None  # what contradicts it

    def __str__(self) -> str:
        lines = [f"{self.what}: {self.place}"]
        lines += [f"  {name}: {value}" for name, value in self.facts.items()]
        return safe("\n".join([*lines, *([f"  BROKEN: {self.problem}"] if self.problem else [])]))


def add_trace(command: argparse.ArgumentParser) -> None:
    options.describe(command, TRACE, "trace runs/scores.jsonl")
    command.add_argument("path", metavar="FILE", type=Path, help="a file, or a model's folder")
    command.add_argument("--json", metavar="FILE", help="write the steps as JSON; - for standard "
                         "output, instead of the text")  # fmt: skip
    command.set_defaults(command=trace)


def trace(flags: argparse.Namespace) -> int:
    options.check_replaceable(flags.json, options.FIGURES)
    links = list(links_of(flags.path))
    steps = {"steps": [asdict(each) for each in links]}
    options.show_figures(flags, steps, "\n".join(map(str, links)))
    broken = sum(each.problem is not None for each in links)
    if broken:
        print(f"{broken} of {len(links)} steps are contradicted", file=sys.stderr)
    return UNUSABLE if broken else OK


def links_of(path: Path) -> Iterator[Link]:
    """Yield the steps from a file or folder back to the first weights."""
    if path.is_dir():
        yield from weights_links(str(path), None)
    elif path.suffix in TABLES:
        yield from table_links(path)
    elif path.suffix == ".json":
        yield from study_links(path)
    else:
        raise InputError(f"{str(path)!r} is neither a folder nor a table or JSON file: name one")


def study_links(path: Path) -> Iterator[Link]:
    """Yield the steps behind the key of a packet, or behind its results."""
    try:
        content: Any = json.loads(path.read_bytes())
        packet, models = str(content["packet"]), ", ".join(map(str, content["models"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{str(path)!r} is neither a packet's key nor its results ({error})"
        ) from None
    is_key = "items" in content
    what = "key of packet" if is_key else "results of packet"
    yield Link(f"{what} {packet}", str(path), {"models": models})
    for name, digest in content.get("inputs", {}).items() if is_key else ():
        file = path.parent / name
        if not file.is_file():
            yield Link("descriptions", name, {"file": "not next to the key"})
            continue
        same = sha256(file.read_bytes()).hexdigest() == digest
        problem = None if same else "it has changed since the packet was made"
        yield Link("descriptions", str(file), {}, problem)
    yield from origin_links({str(n): read_origin(o) for n, o in content.get("origins", {}).items()})


def table_links(path: Path) -> Iterator[Link]:
    """Yield the steps behind rows of descriptions or scores."""
    from posh_reward.study.rows.tables import format_of, open_table

    origins, signatures, count, problem = Origins(), dict[str, None](), 0, None
    with open_table(str(path), format_of(str(path))) as rows:
        for row in rows:
            count += 1
            if row.get("signature"):
                signatures[str(row["signature"])] = None
            try:
                origins.add(row)
            except InputError as error:
                problem = problem or str(error)
    facts = {"rows": f"{count:,}"}
    if len(signatures) > 1:
        problem = problem or f"its scores are of {len(signatures)} metrics or settings"
    if signatures:
        facts["scored by"] = "; ".join(signatures)
    yield Link("scores" if signatures else "descriptions", str(path), facts, problem)
    yield from origin_links(origins.by_model)


def origin_links(by_model: Mapping[str, Origin | None]) -> Iterator[Link]:
    """Yield the origin of each model's descriptions, and then its weights."""
    for name, origin in by_model.items():
        if origin is None:
            yield Link(f"descriptions by {name!r}", "", {ORIGIN: "not recorded"})
            continue
        facts = asdict(origin)
        yield Link(f"descriptions by {name!r}", "", facts)
        yield from weights_links(facts["model"], facts["weights"])


def weights_links(name: str, expected: str | None) -> Iterator[Link]:
    """Yield a model and, as far as they are recorded and here, those that it was trained from.

    ``expected`` is what the step before says of its weights.
    """
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        folder = Path(name)
        if not folder.is_dir():
            yield Link("weights", name, {"weights": expected or UNKNOWN, "folder": "not here"})
            return
        actual = weights_fingerprint(folder)
        run = read_run(folder)
        problem = None
        if expected not in (None, UNKNOWN, actual):
            problem = f"the step before used weights {expected}; this folder now has {actual}"
        is_output = not folder.name.startswith("checkpoint-")
        if run and is_output and run.weights not in (None, actual):
            problem = problem or f"run.json says that the run saved {run.weights}"
        yield Link("weights", name, {"weights": actual or "none"} | _facts(run), problem)
        if run is None:
            return
        name, expected = run.model, run.model_weights


def _facts(run: RunRecord | None) -> dict[str, str]:
    """Describe the run that made a folder."""
    if run is None:
        return {"run": "not recorded"}
    figures = {key: value for key, value in run.figures.items() if value}
    facts = {
        "run": f"{run.recipe}, {run.state}, {run.steps} of {run.steps_asked} steps",
        "reason": run.reason,
        "equals": run.checkpoint,
        "data": ", ".join(f"{key} {value}" for key, value in run.data.items()),
        "prompt": run.prompt,
        "reward": run.reward,
        "figures": ", ".join(f"{key} {value:.4g}" for key, value in figures.items()),
        "versions": ", ".join(f"{key} {value}" for key, value in run.versions.items()),
        "started from": f"{run.model} ({run.model_weights or UNKNOWN})",
    }
    return {key: value for key, value in facts.items() if value}
