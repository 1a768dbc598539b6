"""Who answers POSH's questions: judges about texts, witnesses about images.

::

    judge       what a judge and a witness are
    load        settings -> judge or witness
    embedded/   matches questions against scene graphs; no model, no download
    prompted    renders questions to prompts and asks a language model
    cascade     the embedded judge settles what is plain, another is asked the rest
    oracle/     answers about drawn images from their drawing
    fake        for tests
"""
