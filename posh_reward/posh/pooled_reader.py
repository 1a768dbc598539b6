"""A reader whose texts are read by worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posh_reward.graph.coreference import Coreferencer, load_coref
from posh_reward.graph.parse import is_on_gpu
from posh_reward.graph.reader import Reader, RecentTexts, read_description
from posh_reward.metrics.metric import build_signature
from posh_reward.posh.workers import WorkerPair, Workers
from posh_reward.types import Description, Failure, Scores, Usage

WORKER_RESOLVERS = ("rules", "none")
"""Coreference resolvers that workers have. Any other stays here: it may have a process of its own,
or be an object that another process cannot make."""


def find_worker_resolver(coref: Coreferencer) -> str | None:
    """Return the name by which workers make the same resolver; None if they cannot."""
    for name in WORKER_RESOLVERS:
        if type(load_coref(name)) is type(coref):
            return name
    return None


class PooledReader(Reader):
    """Reader that shares its texts among ``workers``; every text reads as in one process.

    Args:
        workers: the processes.
        parser: as ``Reader``'s, like the rest; a pipeline on a GPU stays in this process.
        coref: of resolvers other than ``WORKER_RESOLVERS``, workers only parse the texts.
    """

    def __init__(self, workers: Workers, parser: str, coref: str | Coreferencer, **rest: Any):
        super().__init__(parser, coref, **rest)
        self.workers = workers
        self._rows: RecentTexts[str] = RecentTexts(self._cache.capacity)

    @property
    def workers_resolve(self) -> bool:
        """True if the workers have this reader's coreference resolver."""
        return find_worker_resolver(self.coref) is not None

    def score_pairs(
        self, pairs: Sequence[tuple[str, str, bool]], usage: Usage
    ) -> list[Scores | Failure | None]:
        """Score pairs, (generation, reference, joined), in the workers; None: not tried."""
        rows = self.read_rows([reference for _, reference, _ in pairs])
        with_rows = [WorkerPair(*pair, rows.get(pair[1])) for pair in pairs]
        return self.workers.score_pairs(with_rows, usage)

    def can_read(self, text: object) -> bool:
        """Return True for a text that is not too long, missing or otherwise unusable."""
        return isinstance(self._strip(text), str)

    def should_share(self, texts: int, own: str, *keys: str) -> bool:
        """Return True if so many texts should go to the workers; see ``Workers.can_take``."""
        return not is_on_gpu(self.nlp) and self.workers.can_take(texts, own, *keys)

    def start_workers(self) -> None:
        """Start the workers, unless the parser is on a GPU."""
        if not is_on_gpu(self.nlp):
            self.workers.start()

    def read_rows(self, texts: Sequence[str]) -> dict[str, str]:
        """Read references in the workers, and keep how they read, as ``write_description`` does.

        ``texts`` can be read (``can_read``); those that cannot be parsed are left out.
        """
        stripped = {text: text.strip() for text in texts}
        unique = list(dict.fromkeys(stripped.values()))
        rows = self._rows.find(unique)
        rows |= self._load_rows([text for text in unique if text not in rows])
        new = [text for text in unique if text not in rows]
        fresh: dict[str, str] = {}
        for text, row in zip(new, self.workers.read_texts(new), strict=True):
            if isinstance(row, str):
                fresh[text] = row
        self._store_rows(fresh)
        rows |= fresh
        self._rows.keep(rows)
        return {text: rows[each] for text, each in stripped.items() if each in rows}

    def _describe_texts(self, texts: Sequence[str]) -> list[Description | Failure]:
        own = build_signature("posh", {"parser": self.parser_name, "coref": self.coref.name})
        keys = ("parser", "version", "coref") if self.workers_resolve else ("parser", "version")
        if not self.should_share(len(texts), own, *keys):
            self.workers.count_texts(len(texts))
            return super()._describe_texts(texts)
        parsed: dict[str, bytes] = {}
        read: dict[str, Description | Failure] = {}
        for text, value in zip(texts, self._ask_workers(texts), strict=True):
            if isinstance(value, bytes):
                parsed[text] = value
            elif isinstance(value, str):
                read[text] = read_description(value)
            elif value is not None:
                read[text] = value
        left = [text for text in texts if text not in read]  # parsed, or not tried
        described = self.make_from_parses(left, self._describe_docs, parsed)
        read.update(zip(left, described, strict=True))
        return [read[text] for text in texts]

    def _ask_workers(self, texts: Sequence[str]) -> Sequence[str | bytes | Failure | None]:
        """Let workers read texts, or only parse them, if they lack this reader's resolver."""
        if self.workers_resolve:
            return self.workers.read_texts(texts)
        return self.workers.parse_texts(texts)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": RecentTexts(self._rows.capacity)}


def make_pooled_reader(
    processes: int | None,
    settings: Mapping[str, Any],
    parser: str,
    coref: Coreferencer,
    *,
    max_characters: int,
    **rest: Any,
) -> PooledReader:
    """Make a reader with worker processes, whose ``PoSh`` has these further ``settings``."""
    there = {
        "parser": parser, "parser_device": "cpu", "coref": find_worker_resolver(coref) or "none",
        "max_characters": int(max_characters), **settings,
    }  # fmt: skip
    workers = Workers(processes, there)
    return PooledReader(workers, parser, coref, max_characters=max_characters, **rest)
