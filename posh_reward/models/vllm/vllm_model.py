"""The trainer's side: vLLM in a child process that may crash, hang or be killed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from posh_reward.errors import InputError
from posh_reward.models.labels import LabelReading, check_reading, verdict
from posh_reward.models.model import Note, Prompt, ignore
from posh_reward.models.prompt_images import MAX_PIXELS
from posh_reward.models.vllm.engine_process import EngineProcess
from posh_reward.models.vllm.supervisor import Supervisor
from posh_reward.models.vllm.vllm_environment import VllmProbe, child_environment, probe
from posh_reward.models.vllm.wire import EngineReply
from posh_reward.types import Reply, Usage, Verdict

A = TypeVar("A", Verdict, Reply)


class VllmModel:
    """A language model in vLLM, in a child process of its own on this rank's GPU.

    The child starts with the first ``wake`` or question. It ends with this object, with its parent,
    or by ``close``. It is not pickled, and a fork of the parent does not touch it. If it dies, a
    new one gets the unanswered prompts; a prompt that keeps killing it fails alone.

    Args:
        model: a folder, or a name on the hub.
        revision: branch, tag or commit on the hub, resolved once.
        python: interpreter of an environment that has vLLM; by default this one.
        dtype: of weights and states, such as "bfloat16".
        memory_gb: GiB of the GPU for the prefix cache, in addition to the weights.
        max_model_len: longest prompt with its reply, in tokens; longer ones fail.
        reading: of label probabilities; see ``models.labels.LabelReading``.
        max_pixels: larger images are shrunk to this.
        batch_invariant: make answers independent of the rest of a batch, at a cost.
        sleep: between batches, move the weights to host memory (28 GB per rank for 14 billion
            parameters in bfloat16) and drop the cache, where vLLM can.
        enforce_eager: start sooner, answer more slowly.
        start_timeout: seconds for loading the model, including its download.
        timeout: seconds until the next prompt must be answered. A prompt that never is costs three
            timeouts, once.
        max_restarts: deaths and failed starts allowed within a batch, plus one per 100 answers;
            half as many may be timeouts. After that the rest of the batch fails. After two such
            batches in a row with most prompts unanswered, every question fails at once.

    Raises:
        InputError: an argument has an invalid value.
    """

    few_calls = True
    notes = True  # ``choose`` and ``write`` take a ``Note``

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        python: str | None = None,
        dtype: str = "bfloat16",
        memory_gb: float = 8.0,
        max_model_len: int = 8192,
        reading: LabelReading = "labels",
        max_pixels: int = MAX_PIXELS,
        batch_invariant: bool = False,
        sleep: bool = True,
        enforce_eager: bool = False,
        start_timeout: float = 1800.0,
        timeout: float = 300.0,
        max_restarts: int = 8,
    ) -> None:
        check_reading(reading)
        _check_positive(memory_gb=memory_gb, max_model_len=max_model_len, max_pixels=max_pixels)
        _check_positive(start_timeout=start_timeout, timeout=timeout)
        self._model = model
        self._revision = revision
        self._python = os.path.expanduser(python or sys.executable)
        self._settings = {
            "model": model,
            "dtype": dtype,
            "kv_cache_memory_bytes": int(memory_gb * 2**30),
            "max_model_len": max_model_len,
            "reading": reading,
            "sleep": sleep,
            "enforce_eager": enforce_eager,
        }
        self._reading: LabelReading = reading
        self._max_pixels = max_pixels
        self._batch_invariant = batch_invariant
        self._timeouts = (start_timeout, timeout)
        self._max_restarts = max_restarts
        self.usage = Usage()
        self._forget_process()

    @property
    def sees(self) -> bool:
        """True for supported vision-language checkpoints (``models.prompt_images.SEEING``)."""
        return self._about().sees

    @property
    def name(self) -> str:
        """E.g. ``vllm-0.31.0:Qwen/Qwen3-14B@<commit>:bfloat16:labels``; starts no engine."""
        about = self._about()
        folder = Path(self._model)
        model = folder.resolve().name if folder.is_dir() else self._model
        options = f":pixels-{self._max_pixels}" if about.sees else ""
        options += ":batch-invariant" if self._batch_invariant else ""
        return (
            f"vllm-{about.version}:{model}@{about.revision}:{self._settings['dtype']}:"
            f"{self._reading}{options}"
        )

    def choose(
        self, prompts: Sequence[Prompt], labels: Sequence[str], note: Note = ignore
    ) -> list[Verdict]:
        """See ``Model.choose``. Raises ``JudgeError`` as ``wake`` does."""

        def read(answer: EngineReply) -> Verdict:
            if answer.masses is None:
                return Verdict(None, answer.failure)
            return verdict(answer.masses, self._reading)

        what = {"do": "choose", "labels": list(labels)}
        return self._answers(prompts, what, read, note)

    def write(self, prompts: Sequence[Prompt], max_tokens: int, note: Note = ignore) -> list[Reply]:
        """See ``Model.write``. Raises ``JudgeError`` as ``wake`` does."""

        def read(answer: EngineReply) -> Reply:
            return Reply(answer.text, answer.failure)

        return self._answers(prompts, {"do": "write", "max_tokens": max_tokens}, read, note)

    def sleep(self) -> None:
        """Have the engine, if it runs, free its GPU memory."""
        with self._mine():
            if self._settings["sleep"]:
                self._supervisor.tell("sleep")

    def wake(self) -> None:
        """Start the engine, or have it allocate its memory again.

        Raises:
            JudgeError: it cannot be started the first time; the message says what is missing.
        """
        with self._mine():
            self._supervisor.wake()

    def close(self) -> None:
        """End the child."""
        with self._mine():
            self._supervisor.end()

    def _answers(
        self,
        prompts: Sequence[Prompt],
        what: Mapping[str, Any],
        read: Callable[[EngineReply], A],
        note: Note,
    ) -> list[A]:
        def note_read(place: int, answer: EngineReply) -> None:
            note(place, read(answer))

        with self._mine():
            answers = self._supervisor.answers(prompts, what, note_read)
            for answer in answers:
                self.usage.prompt_tokens_submitted += answer.submitted
                self.usage.prompt_tokens_computed += answer.computed
                self.usage.tokens_decoded += answer.decoded
            return list(map(read, answers))

    def _start(self) -> EngineProcess:
        about = self._about()
        folder = Path(self._model).is_dir()
        settings = {
            **self._settings,
            "revision": None if folder else about.revision,
            "max_pixels": self._max_pixels if about.sees else None,
        }
        environment = child_environment(
            os.environ, self._python, self._model, batch_invariant=self._batch_invariant
        )
        return EngineProcess(self._python, settings, environment, *self._timeouts)

    def _about(self) -> VllmProbe:
        return probe(self._python, self._model, self._revision)

    def _mine(self) -> threading.Lock:
        """The lock; in a fork a new one, with a supervisor that ignores the parent's child."""
        if self._owner != os.getpid():
            self._forget_process()
        return self._lock

    def _forget_process(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._supervisor = Supervisor(self._start, self._max_restarts)

    def __getstate__(self) -> dict[str, Any]:
        process = ("_owner", "_lock", "_supervisor", "usage")
        return {key: value for key, value in self.__dict__.items() if key not in process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.usage = Usage()
        self._forget_process()


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{name} is {value}: use a number above 0")
