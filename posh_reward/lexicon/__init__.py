"""Meanings and likeness of words, for the judge, the reward and the baselines.

::

    wordnet         WordNet 3.0 as a compact table (wordnet.zip)
    meaning         a word's senses and genera, with strengths
    likeness        how alike two words are, and whether one rules out the other
    function_words  pronouns and persons, places, prepositions
    english         the share of a text's words that are English
"""
