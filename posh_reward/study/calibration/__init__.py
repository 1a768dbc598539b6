"""Weights and balance fitted to people's judgments, with their gain out of fold.

::

    calibration_set  ratings, preferences, packets -> texts, rows, images
    graded_texts     texts -> graded elements, cached in a file -> scores under any weights
    fit              scores and people's numbers -> weights of kinds, and the balance
    out_of_fold      folds, gain and interval -> a report
    settings_output  a calibration -> settings for PoSh and PoshReward
"""
