"""The child's environment variables, GPU and interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from posh_reward.errors import JudgeError
from posh_reward.models.prompt_images import SEEING
from posh_reward.process.child import child_variables, gpu_of, redact, secrets_of

BOOT = Path(__file__).with_name("boot.py")

ENGINES = ("VLLM_", "FLASHINFER_")  # prefixes of variables that configure an engine
OTHER_ENGINE = (
    *"VLLM_ENABLE_V1_MULTIPROCESSING VLLM_BATCH_INVARIANT VLLM_DP_ VLLM_HOST_IP VLLM_PORT".split(),
    "VLLM_API_KEY",  # a server's
)
"""Prefixes of variables that configure a trainer's engine or a server. Other ``VLLM_`` variables
apply to all engines and reach the child."""
VLLM_DEFAULTS = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1"}
"""Set before vLLM is imported, wherever this project starts it, unless the user did. Its warm-up
samples with top_k and top_p, for which FlashInfer would compile a sampler with nvcc, which fails
without a matching CUDA toolkit (vllm#49497). Usage reports need the network."""
ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
PROBE_SECONDS = 120.0  # enough to ask the hub for a commit; nothing heavy is imported


@dataclass(frozen=True, slots=True)
class VllmProbe:
    """An interpreter's vLLM and its model, without loading either."""

    version: str  # of vLLM
    revision: str  # the model's commit, or sha256- and a folder's fingerprint
    sees: bool  # True if the model accepts images


@lru_cache(maxsize=32)
def probe(python: str, model: str, revision: str | None) -> VllmProbe:
    """Ask an interpreter for its version of vLLM and the commit of the model it would load."""
    settings = {"model": model, "revision": revision}
    environment = child_environment(os.environ, python, model)
    try:
        process = subprocess.run(  # noqa: S603
            boot_command(python, "probe", settings),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JudgeError(f"the interpreter {python} of vLLM cannot be run: {error}") from None
    try:
        answer = json.loads(process.stdout.splitlines()[-1])
        fatal = answer.get("fatal")
    except (IndexError, ValueError, AttributeError):
        fatal = f"{python} does not report its vLLM: {process.stderr.strip()[-500:]}"
    if fatal is not None:
        raise JudgeError(redact(secrets_of(environment), str(fatal)))
    return VllmProbe(str(answer["vllm"]), str(answer["revision"]), answer.get("kind") in SEEING)


def boot_command(python: str, what: str, settings: Mapping[str, object]) -> list[str]:
    """The command that starts the child, without a shell."""
    return [python, str(BOOT), what, json.dumps(settings)]


def child_environment(
    base: Mapping[str, str], python: str, model: str, *, batch_invariant: bool = False
) -> dict[str, str]:
    """The child's variables: those it needs of the parent's, its GPU, and options of the engine."""
    hub = not Path(model).is_dir()
    variables = {
        name: value
        for name, value in child_variables(base, python, hub=hub, also=ENGINES).items()
        if not name.startswith(OTHER_ENGINE)
    }
    for name in ALLOCATOR:  # vLLM cannot sleep with expandable segments
        options = variables.pop(name, "").split(",")
        rest = [each for each in options if not each.strip().startswith("expandable_seg")]
        if any(rest):
            variables[name] = ",".join(rest)
    return {
        "VLLM_LOGGING_LEVEL": "WARNING",
        **VLLM_DEFAULTS,
        "TOKENIZERS_PARALLELISM": "false",
        **variables,
        "CUDA_VISIBLE_DEVICES": gpu_of(base),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # run the engine in the child, not in a grandchild
        **({"VLLM_BATCH_INVARIANT": "1"} if batch_invariant else {}),
    }


def set_vllm_defaults(environment: MutableMapping[str, str]) -> None:
    """Set ``VLLM_DEFAULTS``, unless the user did, for a vLLM in this process."""
    for name, value in VLLM_DEFAULTS.items():
        environment.setdefault(name, value)
