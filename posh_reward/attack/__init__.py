"""Search for texts that a reward pays without their being true of the image.

::

    grammars    ways to write without looking: a genome of units -> a text
    climb       a budget of calls, a seed, a journal -> the best find of each grammar
    finds       finds on images that the search did not use: a table and a page

    posh-reward attack data.jsonl --output attack/

``climb.attack`` takes any reward function of TRL's contract, so that a judge of one's own can be
tried before a model is trained on it.
"""
