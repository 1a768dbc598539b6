"""Sandbox for programs that a language model wrote, run over a scene graph.

::

    language         the permitted subset of Python, checked on the syntax tree
    program_scene    the scene graph for programs, and plain data
    sandbox          programs -> values, computed in a separate process
    program_worker   that process: one fork per program, limited in time, memory and files
    seccomp          the system calls that a fork may make (Linux)

There are two independent layers: the language cannot reach files, modules or attributes, and the
process could not use them.
"""
