"""Rows of files: reading them, scoring them, comparing models by them.

::

    tables          files in four formats -> rows       table_writer   rows -> a whole file
    table_items     rows -> items to score              scorers        each metric over items
    engine          items -> result rows, in a journal that survives a kill
    scored_rows     rows -> scores                      dataset_images images by their number
    score_axes      POSH's three scores                 standings      means by model, compared
"""
