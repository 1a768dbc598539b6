"""The trainer's side: vLLM in a child process that may crash, hang or be killed."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, TypeVar

from posh_reward.errors import InputError, JudgeError
from posh_reward.models.asker import NO_IMAGES_ACCEPTED
from posh_reward.models.model import (
    LabelReading,
    OnAnswer,
    Prompt,
    check_reading,
    ignore_answer,
    make_verdict,
)
from posh_reward.models.prompt_images import (
    MAX_PIXELS,
    VISION_MODEL_TYPES,
    SizeLimits,
    image_for_model,
)
from posh_reward.models.vllm.vllm_worker import (
    EngineReply,
    image_portions,
    parse_reply,
    prompts_json,
)
from posh_reward.process import ChildFailureError, ChildProcess
from posh_reward.process.child import child_variables, find_secrets, redact, run_command, select_gpu
from posh_reward.process.python import PYTHON, SAFE_PATH, python_script
from posh_reward.types import Failure, PromptImage, Reply, Usage, Verdict

if TYPE_CHECKING:
    from PIL import Image

BOOT_SCRIPT = Path(__file__).with_name("boot.py")

ENGINE_PREFIXES = ("VLLM_", "FLASHINFER_")  # of variables that configure an engine
OTHER_ENGINE_PREFIXES = (
    *"VLLM_ENABLE_V1_MULTIPROCESSING VLLM_BATCH_INVARIANT VLLM_DP_ VLLM_HOST_IP VLLM_PORT".split(),
    "VLLM_API_KEY",  # a server's
)
"""Prefixes of variables that configure a trainer's engine or a server. Other ``VLLM_`` variables
apply to all engines and reach the child."""
VLLM_DEFAULTS = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1"}
"""Set before vLLM is imported, wherever this project starts it, unless the user did. Its warm-up
samples with top_k and top_p, for which FlashInfer would compile a sampler with nvcc, which fails
without a matching CUDA toolkit (vllm#49497). Usage reports need the network."""
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
PROBE_SECONDS = 120.0  # enough to ask the hub for a commit; nothing heavy is imported


@dataclass(frozen=True, slots=True)
class VllmProbe:
    """An interpreter's vLLM and its model, without loading either."""

    version: str  # of vLLM
    revision: str  # the model's commit, or sha256- and a folder's fingerprint
    sees: bool  # True if the model accepts images


@lru_cache(maxsize=32)
def probe_engine(python: str, model: str, revision: str | None) -> VllmProbe:
    """Ask an interpreter for its version of vLLM and the commit of the model it would load."""
    settings = {"model": model, "revision": revision}
    environment = child_environment(os.environ, python, model)
    try:
        process = run_command(
            boot_command(python, "probe", settings),
            PROBE_SECONDS,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JudgeError(f"the interpreter {python} of vLLM cannot be run: {error}") from None
    try:
        answer = json.loads(process.stdout.splitlines()[-1])
        fatal = answer.get("fatal")
    except (IndexError, ValueError, AttributeError):
        fatal = f"{python} does not report its vLLM: {process.stderr.strip()[-500:]}"
    if fatal is not None:
        raise JudgeError(redact(find_secrets(environment), str(fatal)))
    return VllmProbe(
        str(answer["vllm"]), str(answer["revision"]), answer.get("kind") in VISION_MODEL_TYPES
    )


def boot_command(python: str, what: str, settings: Mapping[str, object]) -> list[str]:
    """The command that starts the child, without a shell."""
    return python_script(BOOT_SCRIPT, what, json.dumps(settings), python=python)


def child_environment(
    base: Mapping[str, str], python: str, model: str, *, batch_invariant: bool = False
) -> dict[str, str]:
    """The child's variables: those it needs of the parent's, its GPU, and options of the engine."""
    hub = not Path(model).is_dir()
    variables: dict[str, str] = {}
    for name, value in child_variables(base, python, hub=hub, also=ENGINE_PREFIXES).items():
        if not name.startswith(OTHER_ENGINE_PREFIXES):
            variables[name] = value
    own = dict(base)  # with the launcher's variables, which the child does not get
    separate_vllm_caches(own)
    if "VLLM_CACHE_ROOT" in own:
        variables["VLLM_CACHE_ROOT"] = own["VLLM_CACHE_ROOT"]
    for name in ALLOCATOR_VARIABLES:  # vLLM cannot sleep with expandable segments
        options = variables.pop(name, "").split(",")
        rest = [each for each in options if not each.strip().startswith("expandable_seg")]
        if any(rest):
            variables[name] = ",".join(rest)
    environment = {
        "VLLM_LOGGING_LEVEL": "WARNING",
        **VLLM_DEFAULTS,
        **SAFE_PATH,  # for the processes of several GPUs
        "TOKENIZERS_PARALLELISM": "false",
        **variables,
        "CUDA_VISIBLE_DEVICES": select_gpu(base),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # run the engine in the child, not in a grandchild
    }
    if batch_invariant:
        environment["VLLM_BATCH_INVARIANT"] = "1"
    return environment


def separate_vllm_caches(environment: MutableMapping[str, str]) -> None:
    """Point vLLM's compile cache to one folder per host and GPU.

    vLLM writes its index of compiled graphs in place, and engines that start at the same moment,
    such as the tasks of an array with a shared home, would read each other's half-written file. A
    GPU keeps its folder from run to run, so it compiles once.
    """
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = Path(environment.get("VLLM_CACHE_ROOT") or caches / "vllm")
    own = f"{gethostname().partition('.')[0]}-gpu-{_gpu_name(environment)}"
    if root.name != own:  # a child inherits its parent's
        environment["VLLM_CACHE_ROOT"] = str(root / own)


def _gpu_name(environment: Mapping[str, str]) -> str:
    """Return a name for this process's GPU that no other process on this host has.

    ``CUDA_VISIBLE_DEVICES`` alone is not one: Slurm may number each job's GPUs from 0, and show
    each task only its own. Rank 1 of a job with the GPUs 4 and 5 has ``4-5-1-1``: the job's GPUs,
    its own among them, its rank. Tasks without GPUs are told apart by their array's numbering.
    """
    rank = environment.get("LOCAL_RANK") or environment.get("SLURM_LOCALID") or "0"
    job = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS")
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    own = visible[int(rank)] if int(rank) < len(visible) else visible[0]
    task = None if job or own else environment.get("SLURM_ARRAY_TASK_ID")
    return "-".join(re.sub(r"\W", "-", part) for part in (job, own, rank, task) if part)


def set_vllm_defaults(environment: MutableMapping[str, str]) -> None:
    """Set ``VLLM_DEFAULTS``, unless the user did, for a vLLM in this process."""
    for name, value in VLLM_DEFAULTS.items():
        environment.setdefault(name, value)


logger = logging.getLogger(__name__)


MAX_SILENCE_SECONDS = 60.0  # without a message before the child counts as stuck


class EngineProcess:
    """A child with a loaded engine. All its failures are ``ChildFailureError`` and end it."""

    def __init__(
        self,
        python: str,
        settings: Mapping[str, Any],
        environment: Mapping[str, str],
        start_timeout: float,
        timeout: float,
    ) -> None:
        self._child = ChildProcess(boot_command(python, "serve", settings), environment)
        self._timeout = timeout
        self._ids = itertools.count(1)
        message = self._child.receive(start_timeout)
        if "refused" in message:
            self._child.stop()
            raise JudgeError(str(message["refused"]))
        if "ready" not in message:
            raise self._child.failed(f"could not start: {message.get('fatal', message)}")
        self._sizes = SizeLimits(*message["sizes"]) if "sizes" in message else None

    def ask(
        self, prompts: Sequence[Prompt], what: Mapping[str, Any]
    ) -> Iterator[tuple[int, EngineReply]]:
        """Yield (index, answer) as answers arrive; ``what`` is the rest of the request."""
        for portion in image_portions(prompts):
            resized: dict[PromptImage, Any] = {}
            sound = []
            for place in portion:
                images = prompts[place].images
                for image in images:
                    if image not in resized:
                        resized[image] = self._resize_image(image)
                failures = [each for each in map(resized.get, images) if isinstance(each, Failure)]
                if failures:
                    yield place, EngineReply(failure=failures[0])
                else:
                    sound.append(place)
            request = {**what, **prompts_json([prompts[place] for place in sound], resized)}
            for place, answer in self._receive_answers(request):
                yield sound[place], answer

    def _resize_image(self, image: PromptImage) -> Image.Image | Failure:
        if self._sizes is None:
            return NO_IMAGES_ACCEPTED
        return image_for_model(image, self._sizes)

    def _receive_answers(self, request: Mapping[str, Any]) -> Iterator[tuple[int, EngineReply]]:
        labels = len(request.get("labels", ()))
        missing = set(range(len(request["prompts"])))
        for message in self._receive_messages(request):
            try:
                answers = []
                for place, answer in message["answers"]:
                    answers.append((place, parse_reply(answer, labels)))
                    missing.remove(place)  # KeyError if it is unknown or has been answered
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                fault = f"sent something that is not an answer: {type(error).__name__}: {error}"
                raise self._child.failed(fault[:300]) from None
            yield from answers
        if missing:
            raise self._child.failed(f"left {len(missing)} prompts without an answer")

    def send_command(self, what: str) -> None:
        """Tell it to "sleep" or "wake", which have no answer."""
        for message in self._receive_messages({"do": what}):
            raise self._child.failed(f"answered something else: {str(message)[:200]}")

    def stop_child(self) -> None:
        self._child.stop()

    def _receive_messages(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Messages about a request until it is done, without heartbeats."""
        number = next(self._ids)
        silence = min(MAX_SILENCE_SECONDS, self._timeout)
        # Two limits: without heartbeats, the process is stopped or stuck in a call that holds the
        # interpreter's lock; with heartbeats but no answer, the engine makes no progress.
        last = time.monotonic()
        message = self._child.exchange({**request, "id": number}, silence)
        while not (message.get("id") == number and "done" in message):
            now = time.monotonic()
            if "beat" in message:
                if now - last > self._timeout:
                    fault = f"answered nothing for {self._timeout:g} s"
                    raise self._child.failed(fault, slow=True)
            elif message.get("id") != number:
                raise self._child.failed(f"answered something else: {str(message)[:200]}")
            else:
                last = now
                yield message
            message = self._child.receive(silence)


ANSWERS_PER_EXTRA_RESTART = 100  # in a batch; a start takes as long as thousands of answers
START_REMEDY = (
    "`memory_gb` and `max_model_len` determine its memory in addition to the weights, `python` "
    "and `model` what it loads"
)
CRASHES_ENGINE = Failure("engine", "this prompt crashes vLLM")
NO_ANSWER_IN_TIME = Failure("engine", "vLLM does not answer this prompt in time")
BATCH_GIVEN_UP = Failure("engine", "vLLM failed too often in one batch")
JUDGE_GIVEN_UP = Failure("engine", "the judge has given up: vLLM failed too often in two batches")

Part = tuple[list[int], int]
"""Indices of prompts that are asked together, and their level of suspicion: 0 at first, 1 after a
death, 2 once divided, 3 alone."""


class Supervisor:
    """A child that is started when needed and restarted when it dies.

    Answers that a child gave before it died are kept. The rest is asked again: all of it once (not
    if the child hung, which costs a whole timeout), then in parts, then the prompts of a part that
    killed it one by one. Prompts that kill children fail, now and later. More suspicious parts come
    last, so that they are lost if the batch ends early.
    """

    def __init__(self, start: Callable[[], EngineProcess], max_restarts: int) -> None:
        self._start_engine = start
        self._max_restarts = max_restarts
        self._process: EngineProcess | None = None
        self._worked = False
        self._failures = self._slow = 0  # of the current batch
        self._ended = False  # the current batch
        self._lost = 0  # batches in a row
        self._deadly: dict[Prompt, Failure] = {}

    def answer_prompts(
        self, prompts: Sequence[Prompt], what: Mapping[str, Any], note: OnAnswer = ignore_answer
    ) -> list[EngineReply]:
        """One answer per prompt, in order. ``what`` is the rest of the request."""
        answers: dict[int, EngineReply] = {}
        unsuspected = []
        for index, prompt in enumerate(prompts):
            if prompt in self._deadly:
                answers[index] = EngineReply(failure=self._deadly[prompt])
            else:
                unsuspected.append(index)
        # A queue with more suspicious parts at its end: when a child dies of one of them, all
        # less suspicious ones have been answered.
        waiting = divide_prompts(unsuspected, 0)
        self._failures, self._slow, self._ended = 0, 0, False
        while waiting and (process := self._find_or_start(len(answers))):
            indices, suspicion = waiting.pop(0)
            try:
                for place, answer in process.ask([prompts[index] for index in indices], what):
                    answers[indices[place]] = answer
                    note(indices[place], answer)
            except ChildFailureError as failure:
                self._count_failure(failure, len(answers))
                # The culprit is among the unanswered, but several were in flight: convict only a
                # prompt that was alone in its part, and not for the first time.
                left = [index for index in indices if index not in answers]
                if len(left) == 1 and suspicion:
                    convicted = NO_ANSWER_IN_TIME if failure.slow else CRASHES_ENGINE
                    self._deadly[prompts[left[0]]] = convicted
                    answers[left[0]] = EngineReply(failure=convicted)
                else:
                    # A death may be the GPU's fault, so try all together once more; a prompt that
                    # hung would cost another timeout, so divide at once.
                    least = 2 if failure.slow else 1
                    waiting += divide_prompts(left, max(suspicion + 1, least))
            except BaseException:  # an interrupt: nobody waits for these answers any more
                self.end_process()
                raise
        self._count_lost_batch(len(answers), len(prompts))
        unanswered = EngineReply(failure=self._reason_to_end)
        return [answers.get(index, unanswered) for index in range(len(prompts))]

    def wake(self) -> None:
        """Start the first child, or have it allocate its memory again."""
        if self._worked:
            self.send_command("wake")  # a dead one is restarted with the next batch
        else:
            self._find_or_start()

    def send_command(self, what: str) -> None:
        """Tell the child, if there is one, to "sleep" or "wake"."""
        if self._process is None:
            return
        try:
            self._process.send_command(what)
        except ChildFailureError as failure:  # its memory is free, too
            logger.warning("vLLM's process did not %s and will be restarted: %s", what, failure)
            self.end_process()

    def end_process(self) -> None:
        if self._process is not None:
            self._process.stop_child()
            self._process = None

    @property
    def _given_up(self) -> bool:
        return self._lost > 1

    @property
    def _reason_to_end(self) -> Failure:
        if self._given_up:
            return JUDGE_GIVEN_UP
        return BATCH_GIVEN_UP

    def _find_or_start(self, answers: int = 0) -> EngineProcess | None:
        """The running child, started if need be; None if no more failures are allowed."""
        while self._process is None and not self._ended and not self._given_up:
            try:
                self._process = self._start_engine()
                self._worked = True
            except ChildFailureError as failure:
                if not self._worked:
                    message = f"vLLM's process {failure.reason}. {START_REMEDY}. Its last output:"
                    raise JudgeError(f"{message}\n{failure.last_words}") from None
                self._count_failure(failure, answers)
        return self._process

    def _count_failure(self, failure: ChildFailureError, answers: int) -> None:
        """End the failed child, and the batch after too many failures."""
        logger.warning("vLLM's process failed: %s", failure)
        self.end_process()
        self._failures += 1
        self._slow += failure.slow
        allowed = self._max_restarts + answers // ANSWERS_PER_EXTRA_RESTART
        # Timeouts cost the most time, so fewer of them are allowed.
        self._ended = self._failures > allowed or self._slow > self._max_restarts / 2

    def _count_lost_batch(self, answers: int, prompts: int) -> None:
        """Count lost batches in a row; after the second, give up for good."""
        if self._given_up or not prompts:
            return
        if self._ended and answers < prompts / 2:
            self._lost += 1
        else:
            self._lost = 0
        if answers < prompts:
            logger.error(
                "%s; it failed %d times, and %d of %d prompts have no answer",
                self._reason_to_end,
                self._failures,
                prompts - answers,
                prompts,
            )


def divide_prompts(indices: list[int], suspicion: int) -> list[Part]:
    """Divide prompts by suspicion: all together, about sqrt(n) parts of sqrt(n), or each alone.

    So two deaths find a single culprit, and a hundred small parts take less time than one start.
    """
    if suspicion < 2:
        size = len(indices)
    elif suspicion == 2:
        size = math.isqrt(len(indices))
    else:
        size = 1
    size = max(1, size)
    return [(indices[i : i + size], suspicion) for i in range(0, len(indices), size)]


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
        reading: of label probabilities; see ``models.model.LabelReading``.
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
    notes = True  # ``choose`` and ``write`` take an ``OnAnswer``

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
        sizes = {
            "memory_gb": memory_gb, "max_model_len": max_model_len, "max_pixels": max_pixels,
            "start_timeout": start_timeout, "timeout": timeout,
        }  # fmt: skip
        for name, value in sizes.items():
            if not value > 0:
                raise InputError(f"{name} is {value}: use a number above 0")
        self._model = model
        self._revision = revision
        self._python = os.path.expanduser(python or PYTHON)
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
        """True for vision-language checkpoints of ``models.prompt_images.VISION_MODEL_TYPES``."""
        return self._probe_engine().sees

    @property
    def name(self) -> str:
        """E.g. ``vllm-0.31.0:Qwen/Qwen3-14B@<commit>:bfloat16:labels``; starts no engine."""
        about = self._probe_engine()
        folder = Path(self._model)
        model = folder.resolve().name if folder.is_dir() else self._model
        options = ""
        if about.sees:
            options += f":pixels-{self._max_pixels}"
        if self._batch_invariant:
            options += ":batch-invariant"
        return (
            f"vllm-{about.version}:{model}@{about.revision}:{self._settings['dtype']}:"
            f"{self._reading}{options}"
        )

    def choose(
        self, prompts: Sequence[Prompt], labels: Sequence[str], note: OnAnswer = ignore_answer
    ) -> list[Verdict]:

        def read_verdict(answer: EngineReply) -> Verdict:
            if answer.masses is None:
                return Verdict(None, answer.failure)
            return make_verdict(answer.masses, self._reading)

        what = {"do": "choose", "labels": list(labels)}
        return self._ask_supervisor(prompts, what, read_verdict, note)

    def write(
        self, prompts: Sequence[Prompt], max_tokens: int, note: OnAnswer = ignore_answer
    ) -> list[Reply]:

        def read_reply(answer: EngineReply) -> Reply:
            return Reply(answer.text, answer.failure)

        what = {"do": "write", "max_tokens": max_tokens}
        return self._ask_supervisor(prompts, what, read_reply, note)

    def sleep(self) -> None:
        """Have the engine, if it runs, free its GPU memory."""
        with self._own_lock():
            if self._settings["sleep"]:
                self._supervisor.send_command("sleep")

    def wake(self) -> None:
        """Start the engine, or have it allocate its memory again."""
        with self._own_lock():
            self._supervisor.wake()

    def close(self) -> None:
        with self._own_lock():
            self._supervisor.end_process()

    def _ask_supervisor(
        self,
        prompts: Sequence[Prompt],
        what: Mapping[str, Any],
        read: Callable[[EngineReply], A],
        note: OnAnswer,
    ) -> list[A]:
        def note_read(place: int, answer: EngineReply) -> None:
            note(place, read(answer))

        with self._own_lock():
            answers = self._supervisor.answer_prompts(prompts, what, note_read)
            for answer in answers:
                self.usage.prompt_tokens_submitted += answer.submitted
                self.usage.prompt_tokens_computed += answer.computed
                self.usage.tokens_decoded += answer.decoded
            return list(map(read, answers))

    def _start_engine(self) -> EngineProcess:
        about = self._probe_engine()
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

    def _probe_engine(self) -> VllmProbe:
        return probe_engine(self._python, self._model, self._revision)

    def _own_lock(self) -> threading.Lock:
        """The lock; in a fork a new one, with a supervisor that ignores the parent's child."""
        if self._owner != os.getpid():
            self._forget_process()
        return self._lock

    def _forget_process(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._supervisor = Supervisor(self._start_engine, self._max_restarts)

    def __getstate__(self) -> dict[str, Any]:
        process = ("_owner", "_lock", "_supervisor", "usage")
        return {key: value for key, value in self.__dict__.items() if key not in process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.usage = Usage()
        self._forget_process()
