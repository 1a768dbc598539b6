"""Weights and balance fitted to what people said, and whether they are worth it out of fold.

::

    judged    what people rated or compared -> texts, rows, images
    scores    texts -> graded elements, each asked about once and kept
    sums      graded elements -> scores under any weights; the judge is not asked again
    fit       scores and people's numbers -> weights of kinds, and the balance
    calibrate folds, gain and interval -> a report
    saving    a calibration -> settings for PoSh and PoshReward
"""
