"""Meanings and likeness of words, for the judge, the reward and the baselines.

::

    wordnet         WordNet 3.0 as a compact table (wordnet.zip); English or not, by its words
    meaning         a word's senses and genera, with strengths
    likeness        how alike two words are, and whether one rules out the other
    function_words  pronouns and persons, places, prepositions
"""
