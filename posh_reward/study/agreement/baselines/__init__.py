"""Metrics to compare POSH with (paper, section 5, A.3.3 and A.3.4). Imported when asked for.

::

    load       names -> baselines, or what has to be installed for them
    words      length, BLEU-4, ROUGE-L-sum, METEOR
    overlap    scene graphs compared without a judge, like SPICE and CAPTURE
    embedding  4-grams and graph elements compared by an encoder, with spans
    llm        a language model asked for three scores as JSON
    random     scores by chance, with spans
"""
