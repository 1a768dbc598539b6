"""Rows of files: reading them, scoring them, comparing models by them.

::

    files      names of inputs and outputs -> tables and sinks
    formats    endings of names -> formats          formulas   texts in CSV that nothing runs
    reading    files -> rows                        writing    rows -> a whole file
    journal    rows that survive a kill
    pairs      rows of a table -> items to score    engine     items -> result rows, resumable
    scored     POSH's scores <-> rows               score      POSH over files
    others     HarmonicEval's, a rubric's and PROVE's scores -> rows
    standings  scored rows -> means by model
    comparison each model against a baseline, paired by id
"""
