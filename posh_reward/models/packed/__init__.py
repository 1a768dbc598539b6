"""A language model in this process: prompts are packed and shared prefixes computed once.

::

    transformers_model --> loaded_model --> runner --> packing, slots   prompts -> passes
      `-> checkpoint         loading, devices, sleep     `-> prompt_tokens   ids, images
"""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
