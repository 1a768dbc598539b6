"""Meanings and similarity of words, for the judge, the reward and the baselines.

::

    wordnet         WordNet 3.0 as a compact table (wordnet.zip); detection of English
    meaning         a word's senses and genera, with strengths
    likeness        similarity of two words, and whether they exclude each other
    function_words  function words, pronouns and persons, places, prepositions
    word_order      disorder of a text's words
"""
