"""PROVE over files: captions -> verified questions, responses -> scores.

::

    tables    what is read from a table, and the rows that are written
    resumed   batch by batch; a run that broke off goes on
    summary   counts and means of a run
"""
