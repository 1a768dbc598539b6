"""Judges compared: what a trainer would notice if one took the other's place.

::

    question_log       a judge that notes what it is asked and what it answers
    judge_runs         judges x pairs -> scores, answers to the same questions, costs
    judge_agreement    grades, scores, rewards of two judges -> measures with intervals
    judge_figures      two runs -> agreement per question, pair and group
    judge_report       figures -> a sentence, text for terminals, JSON
    judge_page         figures -> a page with plots
    perturbed_texts    true texts -> texts with mistakes and omissions of known kind
    question_set       a judge's answers -> a dataset that another judge learns from
"""
