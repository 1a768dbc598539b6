"""Judges of texts and witnesses of images, which answer POSH's questions.

::

    judge         the protocols
    load_judge    settings -> judge or witness
    embedded/     matches questions against scene graphs; no model, no download
    prompt_judge  renders questions to prompts and asks a language model
    cascade       a cheap judge settles what it can, another is asked the rest
    oracle/       answers about drawn images from their drawing
    fake_judge    for tests
"""
