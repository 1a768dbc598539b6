"""A dry run of a node: try everything that a training run needs there.

::

    diagnosis     a configuration -> NodeChecks, in the order of a run
    node_checks   GPUs, compilers, memory, files, ports
    trial         child processes: ranks, a judge, a ZeRO-3 step, a recipe's first steps
    first_hour    a ladder of five rungs, up to a run that is described and scored
    ladder_record what the rungs have measured, in a file to send on
"""
