"""A reader whose texts are read by worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posh_reward.graph.coreference import Coreferencer, load_coref
from posh_reward.graph.parse import is_on_gpu
from posh_reward.graph.reader import Reader, Recent, read_description
from posh_reward.metrics.metric import signature
from posh_reward.posh.workers import WorkerPair, Workers
from posh_reward.types import Description, Failure, Scores, Usage

RESOLVERS_THERE = ("rules", "none")
"""Coreference resolvers that workers have. Any other stays here: it may have a process of its own,
or be an object that another process cannot make."""


def name_there(coref: Coreferencer) -> str | None:
    """Return the name by which workers make the same resolver; None if they cannot."""
    names = (name for name in RESOLVERS_THERE if type(load_coref(name)) is type(coref))
    return next(names, None)


class PooledReader(Reader):
    """Reader that shares its texts among ``workers``; every text reads as in one process.

    Args:
        workers: the processes.
        parser: as ``Reader``'s, like the rest; a pipeline on a GPU stays in this process.
        coref: of resolvers other than ``RESOLVERS_THERE``, workers only parse the texts.
    """

    def __init__(self, workers: Workers, parser: str, coref: str | Coreferencer, **rest: Any):
        super().__init__(parser, coref, **rest)
        self.workers = workers
        self._rows: Recent[str] = Recent(self._cache.capacity)

    @property
    def resolves(self) -> bool:
        """True if the workers have this reader's coreference resolver."""
        return name_there(self.coref) is not None

    def score(
        self, pairs: Sequence[tuple[str, str, bool]], usage: Usage
    ) -> list[Scores | Failure | None]:
        """Score pairs, (generation, reference, joined), in the workers; None: not tried."""
        rows = self.rows([reference for _, reference, _ in pairs])
        with_rows = [WorkerPair(*pair, rows.get(pair[1])) for pair in pairs]
        return self.workers.score(with_rows, usage)

    def can_read(self, text: object) -> bool:
        """Return True for a text that is not too long, missing or otherwise unusable."""
        return isinstance(self._stripped(text), str)

    def shares(self, texts: int, own: str, *keys: str) -> bool:
        """Return True if so many texts should go to the workers; see ``Workers.take``."""
        return not is_on_gpu(self.nlp) and self.workers.take(texts, own, *keys)

    def start_workers(self) -> None:
        """Start the workers, unless the parser is on a GPU."""
        if not is_on_gpu(self.nlp):
            self.workers.start()

    def rows(self, texts: Sequence[str]) -> dict[str, str]:
        """Read references in the workers, and keep how they read, as ``write_description`` does.

        ``texts`` can be read (``can_read``); those that cannot be parsed are left out.
        """
        stripped = {text: text.strip() for text in texts}
        unique = list(dict.fromkeys(stripped.values()))
        rows = self._rows.find(unique)
        rows |= self._stored([text for text in unique if text not in rows])
        new = [text for text in unique if text not in rows]
        read = zip(new, self.workers.read(new), strict=True)
        fresh = {text: row for text, row in read if isinstance(row, str)}
        self._put(fresh)
        rows |= fresh
        self._rows.keep(rows)
        return {text: rows[each] for text, each in stripped.items() if each in rows}

    def _describe(self, texts: Sequence[str]) -> list[Description | Failure]:
        own = signature("posh", {"parser": self.parser_name, "coref": self.coref.name})
        keys = ("parser", "version", "coref") if self.resolves else ("parser", "version")
        if not self.shares(len(texts), own, *keys):
            self.workers.note(len(texts))
            return super()._describe(texts)
        found = self.workers.read(texts) if self.resolves else self.workers.parse(texts)
        values = dict(zip(texts, found, strict=True))
        parsed = {text: value for text, value in values.items() if isinstance(value, bytes)}
        read: dict[str, Description | Failure] = {
            text: read_description(value) if isinstance(value, str) else value
            for text, value in values.items()
            if isinstance(value, str | Failure)
        }
        left = [text for text in texts if text not in read]  # parsed, or not tried
        read.update(zip(left, self.of_parses(left, self._resolve, parsed), strict=True))
        return [read[text] for text in texts]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": Recent(self._rows.capacity)}


def pooled_reader(
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
        "parser": parser, "parser_device": "cpu", "coref": name_there(coref) or "none",
        "max_characters": int(max_characters), **settings,
    }  # fmt: skip
    workers = Workers(processes, there)
    return PooledReader(workers, parser, coref, max_characters=max_characters, **rest)
