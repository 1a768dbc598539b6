"""Follows the protocol of Maverick's worker without a model: it links equal words.

A test writes it as the interpreter of an environment. The name of the weights ("broken", "missing",
"absent") and the words of a text ("die", ...) say what goes wrong.
"""

import json
import os
import sys
import time
from pathlib import Path


def say(reply: object) -> None:
    print(json.dumps(reply), flush=True)


def clusters(words: list[str]) -> list[list[list[int]]]:
    spans = {word: [[i, i] for i, other in enumerate(words) if other == word] for word in words}
    return sorted(cluster for cluster in spans.values() if len(cluster) > 1)


def misbehave(word: str) -> None:
    """Misbehaves as a word says, if it is one of these."""
    if word == "die":
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(9)
    if word.startswith("once:"):  # dies on its first visit only; the word names a file
        mark = Path(word.removeprefix("once:"))
        if not mark.exists():
            mark.touch()
            os._exit(9)
    if word == "hang":
        time.sleep(3600)
    if word == "garbage":
        print("no JSON \udcff".encode("utf-8", "surrogateescape"), flush=True)
    if word == "list":
        say([])
    if word == "cut":
        print('{"id": 1, "clus', end="", flush=True)
        os._exit(0)
    if word == "other":
        say({"id": -1, "clusters": []})


def fail(request: dict[str, object], error: str, *, broken: bool = False) -> None:
    say({"id": request["id"], "error": error, "broken": broken})


def answer(request: dict[str, object]) -> None:
    sentences = request["sentences"]
    assert isinstance(sentences, list)
    words = [word for sentence in sentences for word in sentence]
    for word in words:
        misbehave(word)
    if "stumble" in words:
        fail(request, "ValueError: no mentions")
    elif "variables" in words:
        told = [name for name, value in os.environ.items() if value == "not for all"]
        fail(request, f"{told} {os.environ['CUDA_VISIBLE_DEVICES']!r}")
    elif "pid" in words:
        fail(request, f"pid {os.getpid()}", broken="broken" in words)
    else:
        say({"id": request["id"], "clusters": clusters(words)})


def main() -> None:
    weights = sys.argv[-2]
    if weights == "broken":
        sys.exit("killed while loading")
    if weights == "missing":
        say({"fatal": "ModuleNotFoundError: No module named 'maverick'"})
    elif weights == "absent":
        say({"fatal": "OSError: absent is no repository"})
    else:
        say({"revision": "0123abc"})
    for line in sys.stdin:
        answer(json.loads(line))


if __name__ == "__main__":
    main()
