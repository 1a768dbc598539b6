"""Text -> scene graph.

::

    reader      texts -> descriptions, the whole stage; descriptions as JSON
    parser/     text -> spaCy Doc
    coref/      Doc -> clusters of mentions
    rules/      Doc and clusters -> scene graph
"""
