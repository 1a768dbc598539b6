"""Maverick's worker: a script for the interpreter of its own environment.

It imports nothing from posh_reward. The protocol is one JSON object per line on stdin and stdout:

    worker:  {"revision": "3f2a..."}           or {"fatal": "why"} and exit
    parent:  {"id": 7, "sentences": [["A", "man", "sits", "."], ["He", "sleeps", "."]]}
    worker:  {"id": 7, "clusters": [[[0, 1], [4, 4]]]}
             or {"id": 7, "error": "why", "broken": whether the process cannot be used any longer}

Clusters are (first, last) token indices into the whole text, both inclusive. The worker ends when
stdin does; ``process/keeper.py`` ends it with its parent, whatever it is doing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

CHECKPOINT_FILE = "weights.ckpt"


def find_checkpoint(weights: str) -> Path:
    """Return a local file, one in a local folder, or that of ``repository[@revision]``."""
    local = Path(weights).absolute()
    if local.exists():
        return local / CHECKPOINT_FILE if local.is_dir() else local
    from transformers.utils.hub import cached_file

    repository, _, revision = weights.partition("@")
    path = cached_file(repository, CHECKPOINT_FILE, revision=revision or None)
    assert path is not None, "cached_file raises where there is no such file"
    return Path(path)


def find_revision(checkpoint: Path) -> str:
    """Return the commit of a file from the hub, or the start of another file's SHA-256."""
    if checkpoint.parent.parent.name == "snapshots":
        return checkpoint.parent.name
    digest = hashlib.sha256()
    with checkpoint.open("rb") as file:  # a gigabyte: not read at once
        while block := file.read(1 << 20):
            digest.update(block)
    return f"sha256-{digest.hexdigest()[:16]}"


def load_model(checkpoint: Path, device: str) -> Any:
    """Load the model. "auto" is the visible GPU, or else the CPU.

    A GPU in compute mode EXCLUSIVE_PROCESS that already runs the trainer cannot be used.
    """
    from maverick import Maverick

    if device == "auto":
        try:
            return Maverick(hf_name_or_path=str(checkpoint), device="cuda")
        except (RuntimeError, AssertionError) as error:  # AssertionError: torch without CUDA
            print(f"on the CPU: {error}", file=sys.stderr)
            device = "cpu"
    return Maverick(hf_name_or_path=str(checkpoint), device=device)


def answer_request(model: Any, sentences: list[list[str]]) -> dict[str, object]:
    """Return the clusters of one text without single mentions, or the error."""
    try:
        offsets = model.predict(sentences)["clusters_token_offsets"]
    except Exception as error:
        # RuntimeError: maybe of CUDA, whose context is then of no more use.
        reason = f"{type(error).__name__}: {error}"
        return {"error": reason, "broken": isinstance(error, RuntimeError)}
    clusters = [sorted({(int(first), int(last)) for first, last in each}) for each in offsets]
    return {"clusters": [spans for spans in clusters if len(spans) > 1]}


def main() -> None:
    """Load the model, report its revision, and answer until stdin ends."""
    # What libraries print goes to stderr: stdout is for the protocol.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send_reply(reply: dict[str, object]) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    weights, device = sys.argv[1:]
    try:
        checkpoint = find_checkpoint(weights)
        model = load_model(checkpoint, device)
    except Exception as error:  # the parent tells the user, with the command that repairs it
        send_reply({"fatal": f"{type(error).__name__}: {error}"})
        raise
    send_reply({"revision": find_revision(checkpoint)})
    for line in sys.stdin:
        request = json.loads(line)
        send_reply({"id": request["id"], **answer_request(model, request["sentences"])})


if __name__ == "__main__":
    main()
