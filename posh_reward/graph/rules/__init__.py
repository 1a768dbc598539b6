"""A parsed text and its clusters -> scene graph (paper, A.1.2).

::

    syntax       the Doc's columns, read once
    mended       parses without plain mistakes (preset "mended")
    components   tokens -> nouns, adjectives, verbs, prepositions
    links        which component describes, does or holds which, and what conjuncts share
    entities     clusters -> which nouns are one thing, and what describes it
    relations    links -> relations
    build        all of the above, in order
"""
