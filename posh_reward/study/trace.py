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
from itertools import chain, islice
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError, InputError, escape_controls
from posh_reward.metrics.metric import SEVERAL
from posh_reward.models.hub import UNKNOWN_IDENTITY, adapter_base, find_identity
from posh_reward.provenance import ORIGIN_FIELDS, Origin, Origins, read_origin
from posh_reward.run_record import RUN_FILE, UNCHECKED_WARNING, RunRecord, read_run
from posh_reward.study.packets.make import digest, read_key
from posh_reward.study.packets.rater_answers import sheets_in
from posh_reward.study.packets.study_records import ANSWERS_FORMAT, PacketKey
from posh_reward.tables.reading import open_rows
from posh_reward.tables.tables import ENDINGS, Row

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
        return escape_controls(
            "\n".join([*lines, *([f"  BROKEN: {self.problem}"] if self.problem else [])])
        )


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
                yield from self._packet(path)
            elif path.is_dir():
                if find_identity(str(path)) == UNKNOWN_IDENTITY and not (path / RUN_FILE).is_file():
                    raise InputError(f"{str(path)!r} has no model, {RUN_FILE} or {MANIFEST}")
                yield from self._weights(str(path), None)
            elif path.suffix in ENDINGS:
                yield from self._table(path)
            else:
                yield from self._json(path)

    def _is_new(self, *names: object) -> bool:
        name = str(names[0]), str(names[1:])
        is_new = name not in self.seen
        self.seen.add(name)
        return is_new

    # Studies.

    def _json(self, path: Path) -> Iterator[Step]:
        content = _content(path)
        kind = str(content.get("format", ""))
        if kind.startswith("posh-reward packet key"):
            yield from self._key(path)
        elif kind == ANSWERS_FORMAT:
            yield from self._answers(path, content)
        elif "comparisons" in content and "packet" in content:
            yield from self._results(path, content)
        elif path.name == RUN_FILE:
            yield from self._weights(str(path.parent), None)
        else:
            raise InputError(
                f"{str(path)!r} cannot be traced: name a table, a packet, its key, answers or "
                "results, or a folder with a model"
            )

    def _results(self, path: Path, content: Mapping[str, Any]) -> Iterator[Step]:
        packet, facts, problem = content["packet"], {}, None
        key = self._key_of(packet, path)
        facts["models"] = ", ".join(content["models"])
        origins = content.get("origins", {})
        if key is None:
            facts["key"] = "not here"
        elif read_key(key).origins != origins:
            problem = f"{key} names other weights or settings"
        yield Step(f"results of packet {packet}", str(path), facts, problem)
        if key is None:
            yield from self._origins({name: read_origin(each) for name, each in origins.items()})
        else:
            yield from self._key(key)

    def _answers(self, path: Path, content: Mapping[str, Any]) -> Iterator[Step]:
        packet, problem = content.get("packet"), None
        key = self._key_of(packet, path)
        facts = {"rater": str(content.get("rater"))}
        if key is None:
            facts["key"] = "not here"
        else:
            try:
                sheets_in(path.read_bytes(), read_key(key))
            except InputError as error:
                problem = str(error)
        yield Step(f"answers to packet {packet}", str(path), facts, problem)
        if key is not None:
            yield from self._key(key)

    def _packet(self, folder: Path) -> Iterator[Step]:
        content = _content(folder / MANIFEST)
        packet, files = content.get("packet"), content.get("files", {})
        changed = [name for name, seal in files.items() if _digest(folder / name) != seal]
        problem = f"changed since it was made: {', '.join(changed)}" if changed else None
        key = self._key_of(packet, folder)
        facts = {"files": str(len(files))} | ({} if key else {"key": "not here"})
        yield Step(f"packet {packet}", str(folder), facts, problem)
        if key is not None:
            yield from self._key(key)

    def _key_of(self, packet: object, path: Path) -> Path | None:
        """Find a packet's key: one that was given, or in the same folder, or the one above."""
        near = [
            folder.glob(f"*{KEY_ENDING}") for folder in (path.parent, path.resolve().parent.parent)
        ]
        files = (each for each in chain(self.paths, *near) if each.is_file())
        keys = (each for each in files if each.name.endswith(".json"))
        return next((each for each in keys if _is_key_of(each, packet)), None)

    def _key(self, path: Path) -> Iterator[Step]:
        if not self._is_new("key", path.resolve()):
            return
        key, problems = read_key(path), []
        folder = path.with_name(path.name.removesuffix(KEY_ENDING))
        if (folder / MANIFEST).is_file():
            try:
                read_key(path, folder)
            except InputError as error:
                problems.append(str(error))
        texts = {(n, m): text for n, item in key.items.items() for m, text in item.texts.items()}
        for name, text in texts.items():
            problems += self._contradictions(name, text, path)
        facts = {"models": ", ".join(key.models), "items": f"{len(key.items):,}"}
        yield Step(f"key of packet {key.packet}", str(path), facts, _summary(problems))
        yield from self._inputs(path, key)

    def _inputs(self, path: Path, key: PacketKey) -> Iterator[Step]:
        """Yield the steps behind the files that a packet was made from."""
        given = {each.name: each for each in self.paths}
        files = [given.get(name, path.parent / name) for name in key.inputs]
        changed = []
        for file in files:
            if not file.is_file():
                yield Step("descriptions", file.name, {"file": "not next to the key"})
            else:
                if digest(file.read_bytes()) != key.inputs[file.name]:
                    changed.append(str(file))
                yield from self._table(file, file.stem if len(files) > 1 else "")
        names = {(name, model) for name in key.items for model in key.models}
        if changed and all(file.is_file() for file in files):
            gone = names - self.told
            lack = f"lack {len(gone):,} of its texts" if gone else "have all of its texts"
            yield Step(
                "files of the packet", ", ".join(changed),
                {"since the packet was made": f"changed; they {lack}"},
                f"they have changed since the packet was made, and {lack}" if gone else None,
            )  # fmt: skip
        told = {model for _, model in names & self.told}
        others = {name: each for name, each in key.origins.items() if name not in told}
        yield from self._origins({name: read_origin(each) for name, each in others.items()})

    def _contradictions(self, name: tuple[str, str], text: str, path: Path) -> list[str]:
        """Return a line if another file has another text of an (id, model)."""
        seal = _text_digest(text)
        before, place = self.texts.setdefault(name, (seal, str(path)))
        if before == seal:
            return []
        return [f"what {name[1]!r} wrote about {name[0]!r} is another text in {place}"]

    # Descriptions and scores.

    def _table(self, path: Path, unnamed: str = "") -> Iterator[Step]:
        """Yield the steps behind a table; ``unnamed`` is the model of rows that name none."""
        with open_rows(str(path)) as rows:
            first = list(islice(rows, 1))
            everything = chain(first, rows)
            if first and {"packet", "rater", "choice"} <= first[0].keys():
                yield from self._answer_table(path, everything)
            elif self._is_new("table", path.resolve()):
                yield from self._text_table(path, everything, unnamed)

    def _answer_table(self, path: Path, rows: Iterator[Row]) -> Iterator[Step]:
        packets = list(dict.fromkeys(str(row["packet"]) for row in rows))
        for packet in packets:
            key = self._key_of(packet, path)
            facts = {} if key else {"key": "not here"}
            yield Step(f"answers to packet {packet}", str(path), facts)
            if key is not None:
                yield from self._key(key)

    def _text_table(self, path: Path, rows: Iterator[Row], unnamed: str) -> Iterator[Step]:
        origins, signatures, problems = Origins(), dict[str, None](), list[str]()
        places, count = Counter[str](), 0
        for row in rows:
            count += 1
            model = str(row.get("model") or unnamed)
            if signature := row.get("signature"):
                signatures[str(signature).replace(SEVERAL, "")] = None
            try:
                origins.add({**row, "model": model})
            except InputError as error:
                problems.append(str(error))
            if isinstance(text := row.get("generation"), str):
                name = str(row.get("id")), model
                self.told.add(name)
                problems += self._contradictions(name, text, path)
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
        yield Step(what, str(path), facts, _summary(problems))
        yield from self._origins(origins.by_model)

    def _origins(self, by_model: Mapping[str, Origin | None]) -> Iterator[Step]:
        """Yield the origin of each model's descriptions, and then its weights."""
        for name, origin in by_model.items():
            if not self._is_new("origin", name, origin):
                continue
            what = f"descriptions by {name!r}" if name else "descriptions"
            if origin is None:
                yield Step(what, "", {"weights and settings": UNRECORDED})
                continue
            facts = {each: getattr(origin, each) for each in ORIGIN_FIELDS}
            yield Step(what, "", facts | ({"note": UNCHECKED_WARNING} if origin.unchecked else {}))
            yield from self._weights(origin.model, origin.weights)

    # Weights and runs.

    def _weights(self, name: str, expected: str | None) -> Iterator[Step]:
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
            step, run = _model_step(folder, expected)
            yield step
            base = adapter_base(folder)
            if run is not None:
                name, expected = run.model, run.model_weights
            elif base is not None:
                name, expected = base, (expected or "").partition("+")[2] or None
            else:
                return


def _model_step(folder: Path, expected: str | None) -> tuple[Step, RunRecord | None]:
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
    facts = {"weights": actual} | _run_facts(run)
    if problem is not None or not is_output:
        facts.pop("equals", None)
    return Step("weights", str(folder), facts, problem), run


def _run_facts(run: RunRecord | None) -> dict[str, str]:
    """Describe the run that made a folder."""
    if run is None:
        return {"run": UNRECORDED}
    figures = {key: value for key, value in run.figures.items() if value}
    facts = {
        "run": f"{run.recipe}, {run.state}, {run.steps} of {run.steps_asked} steps",
        "reason": run.reason,
        "note": UNCHECKED_WARNING if run.unchecked else None,
        "equals": run.checkpoint,
        "data": _listed(run.data),
        "held out": _listed(run.held_out or {}),
        "prompt": run.prompt,
        "reward": run.reward,
        "figures": ", ".join(f"{key} {value:.4g}" for key, value in figures.items()),
        "settings": _listed(run.settings),
        "versions": _listed(run.versions),
        **{
            f"until step {before.get('until')}": _listed(
                {name: value for name, value in before.items() if name != "until"}
            )
            for before in run.earlier
        },
        "started from": f"{run.model} ({run.model_weights or UNKNOWN_IDENTITY})",
    }
    return {key: value for key, value in facts.items() if value}


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _summary(problems: Sequence[str]) -> str | None:
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}" if problems else None


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not JSON ({error})") from None
    return content if isinstance(content, dict) else {}


def _is_key_of(path: Path, packet: object) -> bool:
    try:
        content = _content(path)
    except InputError:
        return False
    return content.get("packet") == packet and "raters" in content and "items" in content


def _digest(path: Path) -> str | None:
    return digest(path.read_bytes()) if path.is_file() else None


def _text_digest(text: str) -> bytes:
    """Digest of a text, as packets and tables have it: stripped, and without half characters."""
    whole = text.strip().replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return blake2b(whole, digest_size=16).digest()
