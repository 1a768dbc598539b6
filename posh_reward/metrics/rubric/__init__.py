"""Rubrics: a judge gives points on several metrics, each with a reason, as JSON.

Chouguley, "Fine-grained evaluation of VLMs using LLM-as-Judge".

::

    rubric_judge    RubricJudge: texts and references -> scores
    rubric          metrics, points, steps, examples of a file (rubrics/)
    rubric_prompt   a rubric's prompt (prompts/)
    points          a reply -> points, or what is wrong with it
"""
