"""A dry run of a node: all that a training run will need there, tried in two minutes.

::

    diagnosis     a configuration -> NodeCheck, one for each thing, in the order of a run
    node_checks   cards, memory, files, ports, by reading and by writing
    trial         child processes: ranks that talk, a judge that scores, a step of ZeRO-3
"""
