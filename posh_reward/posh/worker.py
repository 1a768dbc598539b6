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
from posh_reward.posh.pairs import PairTask
from posh_reward.posh.posh import PoSh
from posh_reward.posh.workers import WorkerPair
from posh_reward.types import Description, Usage

WARM_UP_TEXT = "A man in a red coat sits on a chair near a tall window."
"""A text whose score loads parser and dictionary, so that no request waits for them."""
PARTS_NOT_SENT = ("tensor", "user_data", "user_data_keys", "user_data_values", "cats")
"""Parts of a parse that no resolver reads, such as a transformer's states."""


def read_texts(posh: PoSh, texts: list[str]) -> list[Any]:
    """Read texts into rows."""
    rows: list[Any] = []
    for each in posh.graph_reader.read(texts):
        rows.append(write_description(each) if isinstance(each, Description) else astuple(each))
    return rows


def parse_texts(posh: PoSh, texts: list[str]) -> list[Any]:
    """Parse texts into spaCy's own format, as Base64."""

    def pack_docs(docs: list[Doc]) -> list[str]:
        return [b64encode(doc.to_bytes(exclude=PARTS_NOT_SENT)).decode() for doc in docs]

    parsed = posh.graph_reader.make_from_parses(texts, pack_docs)
    return [each if isinstance(each, str) else astuple(each) for each in parsed]


def score_rows(posh: PoSh, rows: list[list[Any]]) -> dict[str, Any]:
    """Score pairs, whose references need no parsing."""
    pairs = [WorkerPair(*row) for row in rows]
    posh.graph_reader.cache_rows({pair.reference.strip(): pair.row for pair in pairs if pair.row})
    assert isinstance(posh.judge, EmbeddedJudge), "the default"
    posh.judge.usage = Usage()  # of this request
    tasks = [PairTask(pair.generation, pair.reference, None, pair.joined) for pair in pairs]
    scores = posh.score_tasks(tasks)
    text = records_adapter("posh").dump_json(scores).decode()
    return {"scores": text, "usage": asdict(posh.judge.usage)}


def answer_request(posh: PoSh, request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request: a value by the name of what to do with it."""
    match request:
        case {"score": rows}:
            return score_rows(posh, rows)
        case {"read": texts}:
            return {"values": read_texts(posh, texts)}
        case {"parse": texts}:
            return {"values": parse_texts(posh, texts)}
    raise AssertionError(f"an unknown request: {list(request)}")


def start_metric(settings: dict[str, Any]) -> PoSh:
    """Make the metric, ready to work at once."""
    weights = settings.pop("weights")
    posh = PoSh(**settings, weights=Weights(*weights), processes=1)
    posh.score([WARM_UP_TEXT], [WARM_UP_TEXT])
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
                posh = start_metric(request["settings"])
                reply: dict[str, Any] = {"signature": posh.signature}
            else:
                reply = answer_request(posh, request)
        except (PoshError, MemoryError) as error:
            reply = {"raised": type(error).__name__, "detail": str(error)}
        print(json.dumps(reply), file=replies, flush=True)
