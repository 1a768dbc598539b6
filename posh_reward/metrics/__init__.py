"""Texts (and images) -> scores. Metrics are siblings: none imports another.

::

    metric       what a reward needs of a metric; checks of inputs, means, signatures, prompts
    load_metric  settings -> POSH
    posh/        POSH: scene graphs, questions, grades, means
    prove/       PROVE: answers about images, how helpful and how truthful; verified questions
    harmonic/    HarmonicEval: five criteria of a text about an image
    rubric/      points on the metrics of a rubric, with reasons
"""
