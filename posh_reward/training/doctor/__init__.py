"""A dry run of a node: try in two minutes everything that a training run needs there.

::

    diagnosis     a configuration -> NodeChecks, in the order of a run
    node_checks   cards, memory, files, ports
    trial         child processes: ranks that communicate, a judge that scores, a ZeRO-3 step
"""
