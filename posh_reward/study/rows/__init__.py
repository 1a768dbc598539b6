"""Rows of files: reading them, scoring them, comparing models by them.

::

    tables          files in four formats -> rows       table_writer   rows -> a whole file
    table_items     rows -> items to score              journal        rows that survive a kill
    engine          items -> result rows, resumable     scorers        each metric over items
    score_axes      POSH's three scores                 dataset_images images by their number
    scored_rows     rows -> scores                      standings      means by model, compared
"""
