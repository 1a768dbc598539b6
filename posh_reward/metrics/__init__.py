"""Texts (and images) -> scores. Metrics are siblings: none imports another.

::

    base        what a reward needs of a metric; means of figures
    load        settings -> POSH                   signature  what reproduces a score
    inputs      which texts can be scored          wording    prompts as files
    posh/       POSH: scene graphs, questions, grades, means
    prove/      PROVE: answers about images, how helpful and how truthful; verified questions
    harmonic/   HarmonicEval: five criteria of a text about an image
    rubric/     points on the metrics of a rubric, with reasons
"""
