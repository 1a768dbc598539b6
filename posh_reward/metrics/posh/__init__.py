"""POSH: how truthful and how complete a description is against a reference (paper, section 3).

::

    posh         PoSh: texts -> scores
    questions    a scene graph as questions see it: names, parents, candidate identifiers
    search       passes 1 and 2: entities, candidate by candidate
    examine      one direction of one pair: all passes, the image's too
    lockstep     many examinations share each call to the judge
    presets      questions -> prompts (wording in prompts/)
    aggregate    grades -> scores, coverage, and the figures that a run logs
    judges/      who answers
"""
