"""Scores -> what a trainer wants.

::

    trl             TRL's contract, whatever the metric: columns in, numbers and a log out
    posh_reward     POSH      harmonic_reward      rubric_reward      the rewards
    objectives      several rewards of one scoring call, and other functions that fail with them
    texts           columns and texts of a call; texts made safe for a judge's prompt, or worthless
    shaping         POSH's scores -> numbers
    instance        rewards by dotted name, for TRL's command line
"""
