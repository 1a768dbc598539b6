"""A witness that knows what drawn images show, for tests and demos: it cannot be mistaken.

::

    album       digest of a drawn image -> its scene
    grounding   which thing of the drawing each entity of a text is
    telling     whether a drawing shows what is said of its things
    oracle      questions -> verdicts
"""

from posh_reward.metrics.posh.judges.oracle.oracle import Oracle

__all__ = ["Oracle"]
