"""vLLM next to the trainer, in one child process per rank.

Two engines in one process would share the allocator, the trainer's process group, seeds and batch
invariance.
"""

from posh_reward.models.vllm.vllm_model import VllmModel

__all__ = ["VllmModel"]
