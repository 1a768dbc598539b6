"""Who answers POSH's questions.

::

    base        what a judge is
    load        settings -> judge
    embedded/   matches questions against scene graphs; no model, no download
    prompted    renders questions to prompts and asks a language model
    cascade     the embedded judge settles what is plain, another is asked the rest
    fake        for tests
"""
