"""A language model in this process: prompts are packed, and what they share is computed once.

::

    transformers_model --> runner --> packing --> slots, segments   prompts -> passes -> states
      `-> checkpoint, loaded, placement                             loads, places, puts to sleep
          logits                                                    last states -> labels
"""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
