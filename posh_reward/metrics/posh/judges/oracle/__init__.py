"""A witness that knows what drawn images show, for tests and demos: it cannot be mistaken.

::

    oracle      questions -> verdicts, over images found by their digest
    grounding   which thing of the drawing each entity of a text is
    depiction   properties and relations of a drawing's things
"""

from posh_reward.metrics.posh.judges.oracle.oracle import Oracle

__all__ = ["Oracle"]
