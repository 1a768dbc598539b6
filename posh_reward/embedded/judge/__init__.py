"""The default judge, which needs no download: it matches questions against scene graphs.

::

    embedded_judge  the protocol: questions -> distributions over grades
    affinity        facts from an encoder's vectors, if there is one
    evidence        facts for and against an answer, their weights (weights.json), and rules
    joining         relations and places of two corresponding things
    matching        correspondence of the things and words of two descriptions
    reading         a description's things, and the words near them in the dependency tree
    negation        words that a text denies
"""

from posh_reward.embedded.judge.embedded_judge import EmbeddedJudge

__all__ = ["EmbeddedJudge"]
