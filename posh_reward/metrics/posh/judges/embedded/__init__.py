"""The default judge, which needs no download: it matches questions against scene graphs.

::

    embedded_judge  the protocol: questions -> distributions over grades
    affinity        facts from an encoder's vectors, if there is one
    rules           answers that follow without weights: materials, and what a text denies
    evidence        facts for and against an answer, and their weights (weights.json)
    joining         relations and places of two corresponding things
    matching        correspondence of the things and words of two descriptions
    reading         a description's things, and the words attached to them
    attachment      how near words stand in the dependency tree
    negation        words that a text denies
"""

from posh_reward.metrics.posh.judges.embedded.embedded_judge import EmbeddedJudge

__all__ = ["EmbeddedJudge"]
