"""Texts (and pictures) -> scores. Metrics are siblings: none imports another.

::

    load        settings -> metric
    signature   what another run needs to reproduce a score
    posh/       POSH: scene graphs, questions, grades, means
    prove/      PROVE: answers about pictures, how helpful and how truthful; verified questions
"""
