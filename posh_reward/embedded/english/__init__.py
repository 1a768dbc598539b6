"""Meanings and similarity of words, for the judge, the reward and the baselines.

::

    wordnet         WordNet 3.0 as a compact table (wordnet.zip); detection of English
    meaning         a word's senses and genera, with strengths
    likeness        similarity of two words, and whether they exclude each other
    word_classes    pronouns and persons, prepositions
    word_forms      whether a text has a word in any form
    word_order      disorder of a text's words
    run_ons         clauses and fragments read as sentences
"""
