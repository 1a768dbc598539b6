"""Metrics to compare POSH with (paper, section 5, A.3.3 and A.3.4). Imported on use.

::

    catalogue        names -> length, shared words, BLEU-4, ROUGE-L-sum, METEOR, random scores
    embedding_alerts 4-grams and graph elements compared by an encoder, with spans
    llm_scores       a language model's own scores, as JSON
"""
