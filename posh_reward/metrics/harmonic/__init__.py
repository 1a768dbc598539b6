"""HarmonicEval: five criteria of a text about an image, and their weighted mean; no reference.

Ohi et al., "HarmonicEval: Multi-modal, Multi-task, Multi-criteria Automatic Evaluation Using a
Vision Language Model".

::

    harmonic_eval   HarmonicEval: texts and images -> scores, weighted by how sure they are
    criteria        criteria, tasks, and the prompt of each (prompts/)
"""
