"""HarmonicEval: five criteria of a text about an image, and their weighted mean; no reference.

Ohi et al., "HarmonicEval: Multi-modal, Multi-task, Multi-criteria Automatic Evaluation Using a
Vision Language Model".

::

    metric      HarmonicEval: texts and images -> scores
    asking      criteria, tasks, and the prompt of each (prompts/)
    weighting   how much each criterion counts in the overall score
    scores      what one text gets
"""
