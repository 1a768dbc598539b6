"""Text -> scene graph.

::

    read        texts -> descriptions, the whole stage
    parser/     text -> spaCy Doc
    coref/      Doc -> clusters of mentions
    rules/      Doc and clusters -> scene graph
    serialise   descriptions as JSON
"""
