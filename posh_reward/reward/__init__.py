"""Scores -> rewards for a trainer.

::

    trl             TRL's contract for any metric: columns in, rewards and logged figures out
    posh_reward     POSH's reward; its siblings are in sibling_rewards
    shaping         POSH's scores -> rewards
    texts           completions -> texts; columns of a call
    cleaning        texts -> texts without markup, safe in a judge's prompt
    objectives      several reward functions that share one scoring call, and fail together
    instance        rewards by dotted name, for TRL's command line
"""
