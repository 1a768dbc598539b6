"""Audit of a reward: what passes though false, and what fails though honest.

::

    rewards     settings file or MODULE:FUNCTION -> functions to audit
    falsehoods  a parsed text -> the same with one kind of word made wrong
    formats     a true text -> the same in another layout, or in simpler sentences
    grammars    ways to write without the image: a genome of units -> a text
    climb       budget, seed, journal -> the best find of each grammar
    audit       texts of both halves -> a verdict for each against true texts; a table and a page

    posh-reward attack data.jsonl --output audit/
"""
