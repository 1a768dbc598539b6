"""On the path of every process of a ladder: what asks for a GPU is told that the CPU will do.

Modules are changed when they are imported: DeepSpeed's ranks meet over gloo, and vLLM's CPU build
keeps the weights that the trainer replaces.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def over_gloo(module: Any) -> None:
    import os

    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        kind = module.DistributedType.MULTI_GPU
        module.PartialState._prepare_backend = lambda *_, **__: ("gloo", kind)


def with_bfloat16(module: Any) -> None:
    module.is_torch_bf16_gpu_available = lambda: True


def with_plain_weights(module: Any) -> None:
    def plain(layer: Any, remove_weight: bool) -> None:
        import torch

        layer.cpu_linear = torch.nn.functional.linear

    module.dispatch_cpu_unquantized_gemm = plain


def with_operators(module: Any) -> None:
    """A CUDA build of torchvision asks for operators that it cannot load."""
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float threshold) -> Tensor"
        with suppress(RuntimeError):
            module.library.define(f"torchvision::{name}", schema)


CHANGES: dict[str, Callable[[Any], None]] = {
    "torch": with_operators,
    "accelerate.state": over_gloo,
    "transformers.training_args": with_bfloat16,
    "vllm.model_executor.layers.utils": with_plain_weights,
}


class Changed(MetaPathFinder):
    """Finds the modules above, and changes each after it has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        change = CHANGES.get(name)
        spec = PathFinder.find_spec(name, path, target) if change else None
        if change is None or spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Changed())
