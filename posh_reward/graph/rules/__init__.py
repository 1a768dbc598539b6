"""A parsed text and its clusters -> scene graph (paper, A.1.2).

::

    mended       parses without plain mistakes (preset "mended")
    components   the Doc's columns, read once; tokens -> nouns, adjectives, verbs, prepositions
    links        which component describes, does or holds which, and what conjuncts share
    entities     clusters -> which nouns are one thing, and what describes it
    relations    links -> relations

``graph.reader.describe`` calls them in order.
"""
