"""A small engine in place of vLLM, with faults on demand.

It runs as the child's interpreter: it gets the script to run, and runs the real worker with this
engine: ``stand_in.py BOOT serve|probe SETTINGS``.
"""

import ctypes
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WORDS_THAT_KILL = ("die", "exit", "stop", "stuck", "garbage", "list", "raise", "half", "outside")
RAW = os.dup(1)
"""The pipe itself, which an engine should not write to."""


SIZES = (8, 128, 2000)
"""Of the images that it sees, if its model's name begins with "sees"."""


def masses(text: str, labels: int, seen: int = 0) -> tuple[float, ...]:
    """Different for each text and sum of bytes seen, and the same in every process."""
    weights = [((sum(map(ord, text)) + seen) * (label + 3)) % 17 + 1 for label in range(labels)]
    return tuple(weight / sum(weights) / 2 for weight in weights)


def supported(text: str) -> bool | None:
    """Tell if a word of a question's first name is in the description; None for another prompt."""
    name = re.search(r'^Q: Is [^"\n]*"([^"]+)"', text, re.MULTILINE)
    target = re.search(r"^DESCRIPTION(?: 1)?: (.*)", text, re.MULTILINE)
    if name is None or target is None:
        return None
    words = {word for word in re.findall("[a-z]{3,}", name[1].lower()) if word != "the"}
    return not words.isdisjoint(re.findall("[a-z]+", target[1].lower()))


class StandIn:
    """Answers by arithmetic, and does what a word in a prompt's suffix tells it to."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from posh_reward.models.prompt_images import SizeLimits

        start(settings["model"])
        self.settings = settings
        self.sizes = SizeLimits(*SIZES) if settings["model"].startswith("sees") else None
        self.asleep = False
        self.forgotten = 0
        self.asked: list[str] = []

    def choose(
        self, prompts: Sequence[Any], labels: Sequence[str]
    ) -> Iterator[list[tuple[int, Any]]]:
        from posh_reward.models.vllm.vllm_worker import EngineReply
        from posh_reward.types import Failure

        for place, prompt in enumerate(prompts):
            words = prompt.suffix.split()
            self._obey(words)
            if "half" in words:
                continue
            seen = sum(sum(each.image.tobytes()) for each in prompt.images) + self.forgotten
            found = masses(prompt.text, len(labels) - ("outside" in words), seen)
            if (says := supported(prompt.text)) is not None:
                found = tuple(
                    mass / 4 + (0.375 if label == 4 * says else 0)
                    for label, mass in enumerate(found)
                )
            if "nan" in words:
                found = (float("nan"),) * len(labels)
            if "long" in words:
                yield [(place, EngineReply(failure=Failure("prompt", "too long")))]
            else:
                yield [(place, EngineReply(masses=found, submitted=10, computed=4, decoded=1))]

    def write(self, prompts: Sequence[Any], max_tokens: int) -> Iterator[list[tuple[int, Any]]]:
        from posh_reward.models.vllm.vllm_worker import EngineReply

        for place, prompt in enumerate(prompts):
            self._obey(prompt.suffix.split())
            shown = " ".join(str(each.image.size) for each in prompt.images)
            told = shown or self._told(prompt.suffix)[: max_tokens * 1000]
            yield [(place, EngineReply(text=told, decoded=2))]

    def sleep(self) -> None:
        self.asleep = True

    def wake(self) -> None:
        self.forgotten += self.settings["model"].endswith("forgets") and self.asleep
        self.asleep = False

    def _told(self, suffix: str) -> str:
        told = {
            "pid": str(os.getpid()),
            "environment": json.dumps(dict(os.environ)),
            "asleep": str(self.asleep),
            "asked": json.dumps(self.asked),
            "settings": json.dumps(self.settings),
        }
        if suffix == "offspring":
            return str(subprocess.Popen(["sleep", "600"]).pid)
        if suffix == "escaped offspring":
            return str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
        return told.get(suffix, f"the {suffix}")

    def _obey(self, words: Sequence[str]) -> None:
        if words and words[0] not in ("pid", "asleep", "asked"):
            self.asked.append(" ".join(words))
        for word in words:
            if word == "once" and not Path(words[-1]).exists():
                Path(words[-1]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            obey(word)


def obey(word: str) -> None:
    if word == "die":
        print(f"out of memory, token {os.environ.get('HF_TOKEN')}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "exit":
        os._exit(3)
    elif word == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif word == "stuck":
        time.sleep(3600)
    elif word == "deaf":
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock: no other thread runs
    elif word == "slowly":
        time.sleep(0.8)
    elif word == "raise":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    elif word in ("garbage", "list"):
        os.write(RAW, {"garbage": b"\xff\x00 no JSON\n", "list": b"[1]\n"}[word])


def start(model: str) -> None:
    """What goes wrong before an engine is ready."""
    what, _, path = model.partition(":")
    if what == "slow":
        time.sleep(0.7)
    elif what == "tells":
        Path(path).write_text(os.environ["VLLM_CACHE_ROOT"])
    elif what == "mute":
        time.sleep(3600)
    elif what == "refuses":
        raise ValueError("no kernel for this GPU, token " + os.environ.get("HF_TOKEN", ""))
    elif what == "killed" or (what == "fickle" and Path(path).exists()):
        obey("die")


def main() -> None:
    boot = Path(sys.argv[1])
    what, settings = sys.argv[2], json.loads(sys.argv[3])
    if what == "probe":
        kind = "qwen3_vl" if settings["model"].startswith("sees") else "qwen3"
        revision = settings["revision"] or "0123abc"
        print(json.dumps({"vllm": "0.0.1", "revision": revision, "kind": kind}))
        return
    runpy.run_path(str(boot))["load_package"](boot.parents[2])
    from posh_reward.models.vllm import vllm_worker

    vllm_worker.HEARTBEAT_SECONDS = 0.1
    vllm_worker.serve_engine(StandIn, settings)


if __name__ == "__main__":
    main()
