"""Packets for human comparison: people say which description is better, not knowing whose it is.

::

    records     what passes between the files here       wording   every word that a rater reads
    items       rows of generations -> items             words     where words begin and end
    draw        items -> each rater's tasks, seeded      album     images, without metadata
    html_form   tasks -> one page a rater                label_studio   tasks <-> Label Studio
    potato      tasks <-> Potato
    make        items -> a folder to hand over, and a key kept apart
    answers     a rater's saved file -> answers          collect   files -> answers, or why not
    results     answers + key -> preferences             results_page, results_text   to look at
    plan        how many pairs and raters settle a difference
    simulated   raters of known preference, to try it all out
"""
