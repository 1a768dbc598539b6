"""A parsed text and its clusters -> scene graph (paper, A.1.2).

::

    syntax       the Doc's columns, read once
    mended       parses without plain mistakes (preset "mended")
    components   tokens -> nouns, adjectives, verbs, prepositions
    roles        what components are to each other
    links        which component describes, does or holds which
    sharing      what conjuncts share
    mentions     clusters -> which components are one thing
    entities     components -> entities with attributes
    relations    links -> relations
    build        all of the above, in order
"""
