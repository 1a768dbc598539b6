"""A language model in this process: prompts are packed and shared prefixes computed once."""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
