"""A language model in this process: prompts are packed and shared prefixes computed once.

::

    transformers_model --> packed_model --> text_runner --> packing, slots   prompts -> passes
      `-> checkpoint, placement                         loading, devices, sleep
"""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
