"""Whether a training run fits: memory of each card by phase, of the host, and room on the disk.

::

    shapes     a model's name -> how many parameters, how wide, how deep; nothing is downloaded
    states     parameters, gradients and optimizer states of one process, to the byte
    phases     what is on a card while it generates, judges, trains
    host       memory of a machine, and the checkpoints' disk
    report     all of it as text, with what to change where it does not fit
"""
