"""Comparison of judges: what a trainer would notice if one replaced another.

::

    judge_runs         judges x pairs -> scores, answers to the same questions, costs
    judge_agreement    two runs -> agreement of grades, scores, rewards with intervals
    judge_report       figures -> a decision, text for terminals, JSON
    judge_page         figures -> a page with plots
    perturbed_texts    true texts -> texts with known mistakes and omissions
    question_set       a judge's answers -> a dataset to train another judge on
"""
