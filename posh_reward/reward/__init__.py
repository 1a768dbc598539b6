"""Scores -> what a trainer wants.

::

    contract    what every metric's reward does for TRL     columns     what TRL passes to it
    trl         POSH      harmonic      rubric              the rewards
    objectives  several rewards of one scoring call         shaping     POSH's scores -> numbers
    giving_up   when a run without rewards should stop      logged      what a training log shows
    texts       which texts describe nothing                instance    for TRL's command line
"""
