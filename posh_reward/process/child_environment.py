"""Environment variables of child processes, and secrets to redact from messages.

A child inherits only variables on a list. It does not see keys of trackers, clouds and other
judges, nor the variables that make the parent one rank of many.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from posh_reward.errors import InputError

SYSTEM = (
    *"PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP LD_LIBRARY_PATH".split(),
    *"LD_PRELOAD DYLD_LIBRARY_PATH CC CXX".split(),  # kernels are compiled at first use
    *"XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME".split(),
    *"SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE".split(),
    *"HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split(),
    *"http_proxy https_proxy all_proxy no_proxy".split(),
)
"""Variables for any program that computes and downloads."""
FAMILIES = (
    *"LC_ CUDA_ CUDNN_ CUBLAS_ NVIDIA_ NVTE_ ROCM_ ROCR_ HIP_ HSA_ NCCL_ GLOO_".split(),
    *"OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ TOKENIZERS_".split(),
    *"TORCH_ TORCHINDUCTOR_ TORCHDYNAMO_ PYTORCH_ TRITON_".split(),
    *"HF_ HUGGINGFACE_ HUGGING_FACE_ TRANSFORMERS_".split(),
)
"""Name prefixes of variables that configure the libraries below a model."""
LAUNCHER = ("TORCH_NCCL_", "NCCL_ASYNC_ERROR_HANDLING")
"""Prefixes among them that a launcher sets for the trainer's process group, not inherited."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN")
"""Name prefixes of the hub's access tokens."""

SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY\b|(HTTPS?|ALL)_PROXY", re.IGNORECASE)
"""Names of variables whose values are redacted; a proxy's URL may contain a password."""
SHORTEST_SECRET = 8  # shorter values ("1", "true") are not secrets


def child_variables(
    base: Mapping[str, str], python: str, *, hub: bool, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Select the variables that a child inherits.

    Args:
        base: the parent's variables.
        python: the child's interpreter; ``PYTHON...`` variables are inherited only if it is ours.
        hub: pass on the hub's tokens, for downloads.
        also: more name prefixes.
    """
    # Compare paths, not link targets: an environment's interpreter is a link.
    same = os.path.abspath(python) == os.path.abspath(sys.executable)
    families = (*FAMILIES, *also, *(("PYTHON",) if same else ()))
    exceptions = (*LAUNCHER, *(() if hub else HUB_TOKENS))
    return {
        name: value
        for name, value in base.items()
        if name in SYSTEM or (name.startswith(families) and not name.startswith(exceptions))
    }


def card_of(base: Mapping[str, str]) -> str:
    """Return the GPU of the parent's rank, for the child's ``CUDA_VISIBLE_DEVICES``.

    That is entry ``LOCAL_RANK`` of the parent's ``CUDA_VISIBLE_DEVICES``, its only entry if the
    launcher shows each rank just one GPU, or ``LOCAL_RANK`` itself if the variable is not set.

    Raises:
        InputError: there are several entries, but none for this rank.
    """
    rank = int(base.get("LOCAL_RANK") or 0)
    visible = base.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(rank)
    gpus = [gpu.strip() for gpu in visible.split(",")]
    if len(gpus) == 1:
        return gpus[0]
    if rank >= len(gpus):
        raise InputError(
            f"LOCAL_RANK is {rank}, but CUDA_VISIBLE_DEVICES={visible} has {len(gpus)} GPUs: "
            "make as many GPUs visible as there are ranks"
        )
    return gpus[rank]


def place_of_card(base: Mapping[str, str]) -> int:
    """Return the index of that GPU among those visible to this process."""
    only = "," not in base.get("CUDA_VISIBLE_DEVICES", ",")
    return 0 if only else int(base.get("LOCAL_RANK") or 0)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return values to redact, such as that of ``HF_TOKEN``, longest first."""
    values = {
        value
        for name, value in environment.items()
        if SECRET.search(name) and len(value) >= SHORTEST_SECRET
    }
    return sorted(values, key=len, reverse=True)


def redact(secrets: Sequence[str], text: str) -> str:
    """Replace secrets by ``***``."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
