"""A language model in this process: prompts are packed and shared prefixes computed once.

::

    transformers_model --> loaded_model --> runner --> packing    prompts -> passes
      `-> checkpoint         |  weights       `-> prompt_tokens   ids, positions, images
                             `-> a check against plain passes
"""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
