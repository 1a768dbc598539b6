"""A worker process of ``workers.Workers``: one JSON object per line on stdin and stdout.

    parent:  {"settings": {"parser": "embedded", ...}}         arguments of ``PoSh``
    worker:  {"signature": "posh|..."}
    parent:  {"read": ["A red dog.", ...]}                     or "parse"
    worker:  {"values": [a description's row or a parse, or [kind, detail] of a failure, ...]}
    parent:  {"score": [[generation, reference, joined, row or null], ...]}
    worker:  {"scores": "[...]", "usage": {...}}
    worker:  {"raised": "JudgeError", "detail": "..."}          instead, for errors of ``errors``

It ends when stdin does; ``process/keeper.py`` ends it with its parent, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64encode
from dataclasses import asdict, astuple
from typing import Any

from spacy.tokens import Doc

from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.errors import PoshError
from posh_reward.graph.reader import write_description
from posh_reward.metrics.records import records_adapter
from posh_reward.posh.means import Weights
from posh_reward.posh.posh import PairTask, PoSh
from posh_reward.posh.workers import WorkerPair
from posh_reward.types import Description, Usage

WARM = "A man in a red coat sits on a chair near a tall window."
"""A text whose score loads parser and dictionary, so that no request waits for them."""
NOT_RESOLVED = ("tensor", "user_data", "user_data_keys", "user_data_values", "cats")
"""Parts of a parse that no resolver reads, such as a transformer's states."""


def read(posh: PoSh, texts: list[str]) -> list[Any]:
    """Read texts into rows."""
    return [
        write_description(each) if isinstance(each, Description) else astuple(each)
        for each in posh.reader.read(texts)
    ]


def parse(posh: PoSh, texts: list[str]) -> list[Any]:
    """Parse texts into spaCy's own format, as Base64."""

    def packed(docs: list[Doc]) -> list[str]:
        return [b64encode(doc.to_bytes(exclude=NOT_RESOLVED)).decode() for doc in docs]

    parsed = posh.reader.of_parses(texts, packed)
    return [each if isinstance(each, str) else astuple(each) for each in parsed]


def score(posh: PoSh, rows: list[list[Any]]) -> dict[str, Any]:
    """Score pairs, whose references need no parsing."""
    pairs = [WorkerPair(*row) for row in rows]
    posh.reader.learn({pair.reference.strip(): pair.row for pair in pairs if pair.row})
    assert isinstance(posh.judge, EmbeddedJudge), "the default"
    posh.judge.usage = Usage()  # of this request
    scores = posh.score_tasks([PairTask(p.generation, p.reference, None, p.joined) for p in pairs])
    text = records_adapter("posh").dump_json(scores).decode()
    return {"scores": text, "usage": asdict(posh.judge.usage)}


def answer(posh: PoSh, request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request: a value by the name of what to do with it."""
    match request:
        case {"score": rows}:
            return score(posh, rows)
        case {"read": texts}:
            return {"values": read(posh, texts)}
        case {"parse": texts}:
            return {"values": parse(posh, texts)}
    raise AssertionError(f"an unknown request: {list(request)}")


def start(settings: dict[str, Any]) -> PoSh:
    """Make the metric, ready to work at once."""
    weights = settings.pop("weights")
    posh = PoSh(**settings, weights=Weights(*weights), processes=1)
    posh.score([WARM], [WARM])
    return posh


def main() -> None:
    """Answer until stdin ends."""
    # What libraries print goes to stderr: stdout is for the protocol.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    posh: PoSh | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if posh is None:
                posh = start(request["settings"])
                reply: dict[str, Any] = {"signature": posh.signature}
            else:
                reply = answer(posh, request)
        except (PoshError, MemoryError) as error:
            reply = {"raised": type(error).__name__, "detail": str(error)}
        print(json.dumps(reply), file=replies, flush=True)
