"""Estimate the memory of GPUs and machines, and the disk, that a training run needs.

::

    model_shapes   a model's name -> parameters, width, depth, and the bytes of its training state
    training_run   a recipe's checked settings -> TrainingRun
    memory         a GPU in each phase of a step (generate, judge, train), a machine, the disk
    fit_report     all of it as text, with remedies where it does not fit
"""
