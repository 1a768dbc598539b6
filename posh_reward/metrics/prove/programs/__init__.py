"""Programs that a language model wrote, run over a scene graph without trusting them.

::

    language   which programs are run at all: a small part of Python, checked by its syntax tree
    scene      the scene graph as programs see it, and as plain data
    confined   programs -> values, by a process of its own
    worker     that process: a fork for each program, with bounds on time, memory and files
    seccomp    the system calls that such a fork may make (Linux)

There are two layers, and each holds without the other: the language has no way to reach files,
modules or attributes, and the process could not use them.
"""
