"""Rubrics: a judge scores a text on several metrics, each with a reason, as JSON.

Chouguley, "Fine-grained evaluation of VLMs using LLM-as-Judge".

::

    rubric_judge    RubricJudge: texts and references -> prompts -> replies -> points
    rubric          metrics, points, steps and examples from a file (rubrics/)
"""
