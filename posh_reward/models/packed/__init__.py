"""A language model in this process: prompts packed, what they share computed once.

::

    model --> runner --> packing --> slots, rows      questions -> passes -> states of prefixes
      `-> checkpoint --> placement                    loads, places, puts to sleep
          logits                                      last states -> labels
"""

from posh_reward.models.packed.transformers_model import TransformersModel

__all__ = ["TransformersModel"]
