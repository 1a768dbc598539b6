"""Packets for human comparison: people say, blind, which of several descriptions is better.

::

    study_records   records passed between these files        rater_texts   all that a rater reads
    study_items     rows of generations -> items, images without metadata
    draw            items -> each rater's tasks, seeded
    rater_page      tasks -> one page                         label_studio  tasks <-> Label Studio
    make            items -> a folder to hand over, and a key kept apart
    rater_answers   saved files -> answers
    results         answers + key -> preferences              results_page  for people
    rater_model     how raters answer, and simulated ones   study_plan    pairs and raters needed
"""
