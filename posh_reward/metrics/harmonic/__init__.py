"""HarmonicEval: reference-free score of a text about an image on five criteria.

Ohi et al., "HarmonicEval: Multi-modal, Multi-task, Multi-criteria Automatic Evaluation Using a
Vision Language Model".

::

    harmonic_eval   HarmonicEval: texts and images -> scores, weighted by their certainty
    criteria        criteria, tasks, and their prompts (prompts/)
"""
