"""A parsed text and its clusters -> scene graph (paper, A.1.2).

::

    syntax       the Doc's columns, read once
    mended       corrections of plain mistakes (preset "mended")
    components   tokens -> nouns, adjectives, verbs, prepositions
    links        which component describes, does or holds which
    mentions     clusters -> which components are one thing
    entities     components -> entities with attributes
    relations    links -> relations
    build        all of the above, in order
"""
