"""A file -> the steps by which it was made, each compared with what is on this machine.

    results, answers, packet -> key -> descriptions -> weights -> the runs that trained them
                                scores ----------------^

Scores have the texts that were scored, and a key those that raters saw, so files that are given
together, and those that a key names, are compared text by text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError, InputError, escape_controls
from posh_reward.metrics.metric import SEVERAL_REFERENCES
from posh_reward.models.hub import UNKNOWN_IDENTITY, adapter_base, find_identity
from posh_reward.provenance import ORIGIN_FIELDS, Origin, Origins, read_origin
from posh_reward.run_record import RUN_FILE, UNCHECKED_WARNING, RunRecord, read_run
from posh_reward.study.packets.make import read_key, sha256_hex
from posh_reward.study.packets.rater_answers import read_sheets
from posh_reward.study.packets.study_records import ANSWERS_FORMAT, PacketKey
from posh_reward.tables.reading import open_rows
from posh_reward.tables.tables import FORMAT_BY_ENDING, Row

KEY_ENDING = ".key.json"
MANIFEST = "manifest.json"
UNRECORDED = "not recorded (made before version 0.2, or elsewhere)"


@dataclass(frozen=True, slots=True)
class Step:
    """A file or a model behind what was asked about."""

    what: str
    place: str
    facts: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None  # what contradicts it

    def __str__(self) -> str:
        head = f"{self.what}: {self.place}" if self.place else self.what
        lines = [head, *(f"  {name}: {value}" for name, value in self.facts.items())]
        if self.problem:
            lines.append(f"  BROKEN: {self.problem}")
        return escape_controls("\n".join(lines))


@dataclass(slots=True)
class Tracer:
    """The steps behind some files. ``Tracer(paths).steps()`` yields them once each."""

    paths: Sequence[Path]
    # (id, model) -> digest of the text, and the file where it was found first
    texts: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    told: set[tuple[str, str]] = field(default_factory=set)  # those in tables
    seen: set[tuple[str, str]] = field(default_factory=set)  # names of steps

    def steps(self) -> Iterator[Step]:
        """Yield the steps behind each path, the newest first.

        Raises:
            InputError: a path is no file or folder of ours.
        """
        for path in self.paths:
            if (path / MANIFEST).is_file():
                yield from self._trace_packet(path)
            elif path.is_dir():
                if find_identity(str(path)) == UNKNOWN_IDENTITY and not (path / RUN_FILE).is_file():
                    raise InputError(f"{str(path)!r} has no model, {RUN_FILE} or {MANIFEST}")
                yield from self._trace_models(str(path), None)
            elif path.suffix in FORMAT_BY_ENDING:
                yield from self._trace_table(path)
            else:
                yield from self._trace_json(path)

    def _is_new(self, *names: object) -> bool:
        name = str(names[0]), str(names[1:])
        is_new = name not in self.seen
        self.seen.add(name)
        return is_new

    # Studies.

    def _trace_json(self, path: Path) -> Iterator[Step]:
        content = _read_object(path)
        kind = str(content.get("format", ""))
        if kind.startswith("posh-reward packet key"):
            yield from self._trace_key(path)
        elif kind == ANSWERS_FORMAT:
            yield from self._trace_answers(path, content)
        elif "comparisons" in content and "packet" in content:
            yield from self._trace_results(path, content)
        elif path.name == RUN_FILE:
            yield from self._trace_models(str(path.parent), None)
        else:
            raise InputError(
                f"{str(path)!r} cannot be traced: name a table, a packet, its key, answers or "
                "results, or a folder with a model"
            )

    def _trace_results(self, path: Path, content: Mapping[str, Any]) -> Iterator[Step]:
        packet, facts, problem = content["packet"], {}, None
        key = self._find_key(packet, path)
        facts["models"] = ", ".join(content["models"])
        origins = content.get("origins", {})
        if key is None:
            facts["key"] = "not here"
        elif read_key(key).origins != origins:
            problem = f"{key} names other weights or settings"
        yield Step(f"results of packet {packet}", str(path), facts, problem)
        if key is None:
            yield from self._trace_origins(
                {name: read_origin(each) for name, each in origins.items()}
            )
        else:
            yield from self._trace_key(key)

    def _trace_answers(self, path: Path, content: Mapping[str, Any]) -> Iterator[Step]:
        packet, problem = content.get("packet"), None
        key = self._find_key(packet, path)
        facts = {"rater": str(content.get("rater"))}
        if key is None:
            facts["key"] = "not here"
        else:
            try:
                read_sheets(path.read_bytes(), read_key(key))
            except InputError as error:
                problem = str(error)
        yield Step(f"answers to packet {packet}", str(path), facts, problem)
        if key is not None:
            yield from self._trace_key(key)

    def _trace_packet(self, folder: Path) -> Iterator[Step]:
        content = _read_object(folder / MANIFEST)
        packet, files = content.get("packet"), content.get("files", {})
        changed = [name for name, seal in files.items() if _hash_file(folder / name) != seal]
        problem = None
        if changed:
            problem = f"changed since it was made: {', '.join(changed)}"
        key = self._find_key(packet, folder)
        facts = {"files": str(len(files))}
        if key is None:
            facts["key"] = "not here"
        yield Step(f"packet {packet}", str(folder), facts, problem)
        if key is not None:
            yield from self._trace_key(key)

    def _find_key(self, packet: object, path: Path) -> Path | None:
        """Find a packet's key: one that was given, or in the same folder, or the one above."""
        beside = path.parent.glob(f"*{KEY_ENDING}")
        above = path.resolve().parent.parent.glob(f"*{KEY_ENDING}")
        for each in chain(self.paths, beside, above):
            if each.is_file() and each.name.endswith(".json") and _opens_packet(each, packet):
                return each
        return None

    def _trace_key(self, path: Path) -> Iterator[Step]:
        if not self._is_new("key", path.resolve()):
            return
        key, problems = read_key(path), []
        folder = path.with_name(path.name.removesuffix(KEY_ENDING))
        if (folder / MANIFEST).is_file():
            try:
                read_key(path, folder)
            except InputError as error:
                problems.append(str(error))
        for id, item in key.items.items():
            for model, text in item.texts.items():
                problems += self._find_contradictions((id, model), text, path)
        facts = {"models": ", ".join(key.models), "items": f"{len(key.items):,}"}
        yield Step(f"key of packet {key.packet}", str(path), facts, _summarise(problems))
        yield from self._trace_inputs(path, key)

    def _trace_inputs(self, path: Path, key: PacketKey) -> Iterator[Step]:
        """Yield the steps behind the files that a packet was made from."""
        given = {each.name: each for each in self.paths}
        files = [given.get(name, path.parent / name) for name in key.inputs]
        changed = []
        for file in files:
            if not file.is_file():
                yield Step("descriptions", file.name, {"file": "not next to the key"})
            else:
                if sha256_hex(file.read_bytes()) != key.inputs[file.name]:
                    changed.append(str(file))
                model = file.stem if len(files) > 1 else ""  # of rows that name none
                yield from self._trace_table(file, model)
        names = set(product(key.items, key.models))
        if changed and all(file.is_file() for file in files):
            gone, problem = names - self.told, None
            lack = "have all of its texts"
            if gone:
                lack = f"lack {len(gone):,} of its texts"
                problem = f"they have changed since the packet was made, and {lack}"
            facts = {"since the packet was made": f"changed; they {lack}"}
            yield Step("files of the packet", ", ".join(changed), facts, problem)
        told = {model for _, model in names & self.told}
        origins = {}
        for model, origin in key.origins.items():
            if model not in told:
                origins[model] = read_origin(origin)
        yield from self._trace_origins(origins)

    def _find_contradictions(self, name: tuple[str, str], text: str, path: Path) -> list[str]:
        """Return a line if another file has another text of an (id, model)."""
        seal = _hash_text(text)
        before, place = self.texts.setdefault(name, (seal, str(path)))
        if before == seal:
            return []
        return [f"what {name[1]!r} wrote about {name[0]!r} is another text in {place}"]

    # Descriptions and scores.

    def _trace_table(self, path: Path, unnamed: str = "") -> Iterator[Step]:
        """Yield the steps behind a table; ``unnamed`` is the model of rows that name none."""
        with open_rows(str(path)) as rows:
            first = list(islice(rows, 1))
            everything = chain(first, rows)
            if first and {"packet", "rater", "choice"} <= first[0].keys():
                yield from self._trace_answer_table(path, everything)
            elif self._is_new("table", path.resolve()):
                yield from self._trace_text_table(path, everything, unnamed)

    def _trace_answer_table(self, path: Path, rows: Iterator[Row]) -> Iterator[Step]:
        packets = list(dict.fromkeys(str(row["packet"]) for row in rows))
        for packet in packets:
            key = self._find_key(packet, path)
            facts = {}
            if key is None:
                facts["key"] = "not here"
            yield Step(f"answers to packet {packet}", str(path), facts)
            if key is not None:
                yield from self._trace_key(key)

    def _trace_text_table(self, path: Path, rows: Iterator[Row], unnamed: str) -> Iterator[Step]:
        origins, signatures, problems = Origins(), dict[str, None](), list[str]()
        places, count = Counter[str](), 0
        for row in rows:
            count += 1
            model = str(row.get("model") or unnamed)
            if signature := row.get("signature"):
                signatures[str(signature).replace(SEVERAL_REFERENCES, "")] = None
            try:
                origins.add({**row, "model": model})
            except InputError as error:
                problems.append(str(error))
            if isinstance(text := row.get("generation"), str):
                name = str(row.get("id")), model
                self.told.add(name)
                problems += self._find_contradictions(name, text, path)
                places[self.texts[name][1]] += 1
        facts = {"rows": f"{count:,}"}
        for place, same in places.items():
            if place != str(path) and not problems:
                facts["texts"] = f"{same:,} as in {place}"
        if signatures:
            facts["scored as"] = "; ".join(signatures)
        if gaps := "; ".join(origins.gaps()):
            facts["without a record"] = gaps
        what = "scores" if signatures else "descriptions"
        yield Step(what, str(path), facts, _summarise(problems))
        yield from self._trace_origins(origins.by_model)

    def _trace_origins(self, by_model: Mapping[str, Origin | None]) -> Iterator[Step]:
        """Yield the origin of each model's descriptions, and then its weights."""
        for name, origin in by_model.items():
            if not self._is_new("origin", name, origin):
                continue
            what = f"descriptions by {name!r}" if name else "descriptions"
            if origin is None:
                yield Step(what, "", {"weights and settings": UNRECORDED})
                continue
            facts = {each: getattr(origin, each) for each in ORIGIN_FIELDS}
            if origin.unchecked:
                facts["note"] = UNCHECKED_WARNING
            yield Step(what, "", facts)
            yield from self._trace_models(origin.model, origin.weights)

    # Weights and runs.

    def _trace_models(self, name: str, expected: str | None) -> Iterator[Step]:
        """Yield a model and, as far as they are recorded and here, those that it was trained from.

        ``expected`` is what the step before says of its weights.
        """
        while True:
            folder = Path(name)
            if not self._is_new("weights", name, expected):
                yield Step("weights", name, {"weights": "see above"})
                return
            if not folder.is_dir():
                here = "no folder of this name is here"
                yield Step(
                    "weights", name, {"weights": expected or UNKNOWN_IDENTITY, "folder": here}
                )
                return
            step, run = _compare_weights(folder, expected)
            yield step
            base = adapter_base(folder)
            if run is not None:
                name, expected = run.model, run.model_weights
            elif base is not None:
                name, expected = base, (expected or "").partition("+")[2] or None
            else:
                return


def _compare_weights(folder: Path, expected: str | None) -> tuple[Step, RunRecord | None]:
    """Compare a folder's weights with what is said of them, and read the record of its run."""
    run = problem = None
    try:
        actual = find_identity(str(folder))
    except ConfigError as error:  # of an adapter that does not name its model
        actual, problem = UNKNOWN_IDENTITY, str(error)
    if problem is None and expected and UNKNOWN_IDENTITY not in expected and expected != actual:
        problem = f"the step before used weights {expected}; this folder now has {actual}"
    try:
        run = read_run(folder)
    except InputError as error:
        problem = problem or str(error)
    is_output = not folder.name.startswith("checkpoint-")
    saved = run.weights if run and is_output else None
    if saved not in (None, actual.partition("+")[0]):
        problem = problem or f"{RUN_FILE} says that the run saved {saved}"
    facts = {"weights": actual} | _describe_run(run)
    if problem is not None or not is_output:
        facts.pop("equals", None)
    return Step("weights", str(folder), facts, problem), run


def _describe_run(run: RunRecord | None) -> dict[str, str]:
    """Describe the run that made a folder."""
    if run is None:
        return {"run": UNRECORDED}
    figures = [f"{key} {value:.4g}" for key, value in run.figures.items() if value]
    facts = {
        "run": f"{run.recipe}, {run.state}, {run.steps} of {run.steps_asked} steps",
        "reason": run.reason,
        "note": UNCHECKED_WARNING if run.unchecked else None,
        "equals": run.checkpoint,
        "data": _list_values(run.data),
        "held out": _list_values(run.held_out or {}),
        "prompt": run.prompt,
        "reward": run.reward,
        "figures": ", ".join(figures),
        "settings": _list_values(run.settings),
        "versions": _list_values(run.versions),
    }
    for before in run.earlier:
        others = {name: value for name, value in before.items() if name != "until"}
        facts[f"until step {before.get('until')}"] = _list_values(others)
    facts["started from"] = f"{run.model} ({run.model_weights or UNKNOWN_IDENTITY})"
    return {key: value for key, value in facts.items() if value}


def _list_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _summarise(problems: Sequence[str]) -> str | None:
    if not problems:
        return None
    if len(problems) == 1:
        return problems[0]
    return f"{problems[0]} (and {len(problems) - 1:,} more)"


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not JSON ({error})") from None
    if not isinstance(content, dict):
        return {}
    return content


def _opens_packet(path: Path, packet: object) -> bool:
    try:
        content = _read_object(path)
    except InputError:
        return False
    return content.get("packet") == packet and "raters" in content and "items" in content


def _hash_file(path: Path) -> str | None:
    if not path.is_file():
        return None
    return sha256_hex(path.read_bytes())


def _hash_text(text: str) -> bytes:
    """Digest of a text, as packets and tables have it: stripped, and without half characters."""
    whole = text.strip().replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return blake2b(whole, digest_size=16).digest()
