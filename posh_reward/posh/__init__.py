"""POSH: scene graphs -> questions -> verdicts -> scores. ``posh.PoSh`` is the whole metric."""
