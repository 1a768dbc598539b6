"""The default judge: no model, no download; it matches questions against scene graphs.

::

    reading     a description as things and what hangs on them (attachment, persons, words)
    likeness    how alike two words are (meaning, wordnet, colours, prepositions)
    matching    which thing of one description is which of the other
    joining     whether two things are related as claimed (places: by side)
    judge       the protocol: requests -> distributions over grades
"""

from posh_reward.metrics.posh.judges.embedded.embedded_judge import EmbeddedJudge

__all__ = ["EmbeddedJudge"]
