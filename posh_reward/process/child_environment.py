"""The user's variables that a child process gets, and the values that no message repeats.

A child gets what it needs by name. Keys of trackers, clouds and other judges stay here, and so
does what makes this process one rank of many.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from posh_reward.errors import InputError

SYSTEM = (
    *"PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP LD_LIBRARY_PATH".split(),
    *"LD_PRELOAD DYLD_LIBRARY_PATH CC CXX".split(),  # kernels are compiled when first used
    *"XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME".split(),
    *"SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE".split(),
    *"HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split(),
    *"http_proxy https_proxy all_proxy no_proxy".split(),
)
"""Variables of any program that computes and downloads."""
FAMILIES = (
    *"LC_ CUDA_ CUDNN_ CUBLAS_ NVIDIA_ NVTE_ ROCM_ ROCR_ HIP_ HSA_ NCCL_ GLOO_".split(),
    *"OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ TOKENIZERS_".split(),
    *"TORCH_ TORCHINDUCTOR_ TORCHDYNAMO_ PYTORCH_ TRITON_".split(),
    *"HF_ HUGGINGFACE_ HUGGING_FACE_ TRANSFORMERS_".split(),
)
"""Starts of the names of variables that steer the libraries below a model."""
LAUNCHER = ("TORCH_NCCL_", "NCCL_ASYNC_ERROR_HANDLING")
"""Starts of those in the families that a launcher sets for the trainer's own process group."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN")
"""Starts of the names of keys to the hub, as its clients read them."""

SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY\b|(HTTPS?|ALL)_PROXY",  # a proxy's may hold a password
    re.IGNORECASE,
)
"""Names of variables whose values are never repeated."""
SHORTEST_SECRET = 8  # a shorter value ("1", "true") is not a secret


def child_variables(
    base: Mapping[str, str], python: str, *, hub: bool, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """The variables that a child gets of the user's.

    Args:
        base: the parent's.
        python: the child's interpreter. ``PYTHON...`` variables are for this one only.
        hub: whether the child may download from the hub, and so needs the key to it.
        also: starts of the names of more variables that it needs.
    """
    # The same interpreter by its path, not its target: links are environments.
    same = os.path.abspath(python) == os.path.abspath(sys.executable)
    families = (*FAMILIES, *also, *(("PYTHON",) if same else ()))
    exceptions = (*LAUNCHER, *(() if hub else HUB_TOKENS))
    return {
        name: value
        for name, value in base.items()
        if name in SYSTEM or (name.startswith(families) and not name.startswith(exceptions))
    }


def card_of(base: Mapping[str, str]) -> str:
    """The one card that the child sees: the one that the parent's rank trains on.

    That is entry ``LOCAL_RANK`` of the parent's ``CUDA_VISIBLE_DEVICES``; the only entry, if the
    launcher shows each rank just its own card; and card ``LOCAL_RANK`` if all are visible.

    Raises:
        InputError: there are several entries, but none for this rank.
    """
    rank = int(base.get("LOCAL_RANK") or 0)
    visible = base.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(rank)
    cards = [card.strip() for card in visible.split(",")]
    if len(cards) == 1:
        return cards[0]
    if rank >= len(cards):
        raise InputError(
            f"LOCAL_RANK is {rank}, but CUDA_VISIBLE_DEVICES={visible} has {len(cards)} cards: "
            "make as many cards visible as there are ranks"
        )
    return cards[rank]


def place_of_card(base: Mapping[str, str]) -> int:
    """The number of that card among those that this process sees."""
    only = "," not in base.get("CUDA_VISIBLE_DEVICES", ",")
    return 0 if only else int(base.get("LOCAL_RANK") or 0)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Values that no message may repeat, such as the one of ``HF_TOKEN``; longest first."""
    values = {
        value
        for name, value in environment.items()
        if SECRET.search(name) and len(value) >= SHORTEST_SECRET
    }
    return sorted(values, key=len, reverse=True)


def redact(secrets: Sequence[str], text: str) -> str:
    """A text with stars in place of secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
