"""Programs that a language model wrote, run over a scene graph without trusting them.

::

    language         the small part of Python that is run, checked by its syntax tree
    program_scene    the scene graph as programs see it, and as plain data
    confined         programs -> values, by a process of its own
    program_worker   that process: a fork for each program, bounded in time, memory and files
    seccomp          the system calls that such a fork may make (Linux)

There are two layers, and each holds without the other: the language has no way to reach files,
modules or attributes, and the process could not use them.
"""
