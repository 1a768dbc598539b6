"""The default judge: no download; it matches questions against scene graphs.

::

    embedded_judge  the protocol: questions -> distributions over grades
    affinity        facts of an encoder's vectors, if there is one
    evidence        facts for and against an answer, and their weights
    joining         relations and places of two corresponding things
    matching        which thing of one description is which of the other
    reading         a description as things and what hangs on them
"""

from posh_reward.metrics.posh.judges.embedded.embedded_judge import EmbeddedJudge

__all__ = ["EmbeddedJudge"]
