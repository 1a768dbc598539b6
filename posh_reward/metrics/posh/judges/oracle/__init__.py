"""A witness that knows what was drawn, for tests and demos: its answers are never wrong.

::

    oracle      questions -> verdicts; images are found by their digest
    grounding   matches a text's entities with the objects of a drawing
    depiction   properties and relations of a drawing's objects
"""

from posh_reward.metrics.posh.judges.oracle.oracle import Oracle

__all__ = ["Oracle"]
