"""A parsed text and its clusters -> scene graph (paper, A.1.2).

::

    components   Doc -> ``Syntax``; tokens -> nouns, adjectives, verbs, prepositions
    links        dependencies -> roles of components for each other, shared by conjuncts
    entities     nouns and clusters -> entities; adjectives -> attributes
    relations    possessives, verbs and prepositions -> relations

``graph.reader.describe`` calls them in order.
"""
