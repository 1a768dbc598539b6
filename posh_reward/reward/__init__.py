"""Scores -> what a trainer wants.

::

    trl             TRL's contract, whatever the metric: columns in, a number per completion out
    posh_reward     POSH      harmonic_reward      rubric_reward      the rewards
    objectives      several rewards of one scoring call, and other functions that fail with them
    texts           text of a completion, made safe for a judge's prompt; texts without content
    shaping         POSH's scores -> numbers
    reward_log      figures of a call for the training log
    instance        rewards by dotted name, for TRL's command line
"""
