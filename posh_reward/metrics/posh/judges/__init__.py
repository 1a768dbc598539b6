"""Judges of texts and witnesses of images: they answer POSH's questions.

::

    judge         the protocols
    load_judge    settings -> judge or witness
    embedded/     matches questions against scene graphs; no model, no download
    prompt_judge  renders questions to prompts and asks a language model
    cascade       a cheap judge settles what it can, a second one answers the rest
    oracle        answers about drawn images from what was drawn
    fake_judge    for tests
"""
