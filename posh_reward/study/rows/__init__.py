"""Rows of files: reading them, scoring them, comparing models by them.

::

    files      names of inputs and outputs -> tables and sinks
    tables     JSON lines, CSV, Parquet         journal    rows that outlive a kill
    pairs      rows of a table -> pairs to score
    scored     scores <-> rows of an output     score      the engine, resumable
    standings  scored rows -> means and differences by model
"""
