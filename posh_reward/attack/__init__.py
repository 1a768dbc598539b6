"""Search for texts that earn a high reward without being true of the image.

::

    grammars    ways to write without the image: a genome of units -> a text
    climb       budget, seed, journal -> the best find of each grammar
    finds       rewards of the finds on images not used in the search: a table and a page

    posh-reward attack data.jsonl --output attack/

``climb.attack`` accepts any TRL reward function, so you can test your own judge before training a
model on it.
"""
