"""Maverick's worker: a script for the interpreter of its own environment.

It imports nothing from posh_reward. The protocol is one JSON object per line on stdin and stdout:

    worker:  {"ready": {"revision": "...", "maverick": "1.0.7", "device": "cpu"}}
             or {"fatal": "why"} and exit
    parent:  {"id": 7, "sentences": [["A", "man", "sits", "."], ["He", "sleeps", "."]]}
    worker:  {"id": 7, "clusters": [[[0, 1], [4, 4]]]}              or {"id": 7, "error": "why"}

Clusters are (first, last) token indices into the whole text, both inclusive. The worker ends when
stdin does; ``process/keeper.py`` ends it with its parent, whatever it is doing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

CHECKPOINT = "weights.ckpt"


def claim_stdout() -> IO[str]:
    """Reserve stdout for the protocol; what libraries print goes to stderr."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def find_checkpoint(weights: str) -> Path:
    """Return a local file, one in a local folder, or that of ``repository[@revision]``."""
    local = Path(weights).absolute()
    if local.exists():
        return local / CHECKPOINT if local.is_dir() else local
    from transformers.utils.hub import cached_file

    repository, _, revision = weights.partition("@")
    path = cached_file(repository, CHECKPOINT, revision=revision or None)
    assert path is not None, "cached_file raises where there is no such file"
    return Path(path)


def revision_of(checkpoint: Path) -> str:
    """Return the commit of a file from the hub, or the start of another file's SHA-256."""
    if checkpoint.parent.parent.name == "snapshots":
        return checkpoint.parent.name
    digest = hashlib.sha256()
    with checkpoint.open("rb") as file:  # a gigabyte: not read at once
        while block := file.read(1 << 20):
            digest.update(block)
    return f"sha256-{digest.hexdigest()[:16]}"


def clusters_of(model: Any, sentences: list[list[str]]) -> list[list[list[int]]]:
    """Return the clusters of one text in the model's order, without single mentions."""
    offsets = model.predict(sentences)["clusters_token_offsets"]
    clusters = [sorted({(int(first), int(last)) for first, last in each}) for each in offsets]
    return [[list(span) for span in spans] for spans in clusters if len(spans) > 1]


def answer(model: Any, line: str) -> dict[str, object]:
    """Return the reply to one request: clusters, or the error that the model raised."""
    request = json.loads(line)
    try:
        return {"id": request["id"], "clusters": clusters_of(model, request["sentences"])}
    except Exception as error:
        return {"id": request["id"], "error": f"{type(error).__name__}: {error}"}


def load(maverick: Any, checkpoint: str, device: str) -> tuple[Any, str]:
    """Load the model; return it with its device. "auto" is the visible GPU, or else the CPU.

    A GPU in compute mode EXCLUSIVE_PROCESS that already runs the trainer cannot be used.
    """
    if device != "auto":
        return maverick(hf_name_or_path=checkpoint, device=device), device
    try:
        return maverick(hf_name_or_path=checkpoint, device="cuda"), "cuda"
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch without CUDA
        print(f"on the CPU: {error}", file=sys.stderr)
        return maverick(hf_name_or_path=checkpoint, device="cpu"), "cpu"


def serve(weights: str, device: str, replies: IO[str]) -> None:
    """Load the model, report that it is ready, and answer until stdin ends."""

    def say(reply: dict[str, object]) -> None:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    try:
        from maverick import Maverick

        checkpoint = find_checkpoint(weights)
        model, device = load(Maverick, str(checkpoint), device)
    except Exception as error:  # the parent tells the user, with the command that repairs it
        say({"fatal": f"{type(error).__name__}: {error}"})
        raise
    versions = {"revision": revision_of(checkpoint), "maverick": version("maverick-coref")}
    say({"ready": {**versions, "device": device}})
    for line in sys.stdin:
        say(answer(model, line))


def main() -> None:
    """Serve, or with ``--check`` only try the import."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--weights", default="")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    if arguments.check:
        import maverick  # noqa: F401

        print(f"maverick-coref {version('maverick-coref')} can be imported")
        return
    serve(arguments.weights, arguments.device, claim_stdout())


if __name__ == "__main__":
    main()
