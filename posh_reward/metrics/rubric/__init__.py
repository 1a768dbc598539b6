"""Rubrics: a judge gives points on several metrics, each with a reason, as JSON.

Chouguley, "Fine-grained evaluation of VLMs using LLM-as-Judge".

::

    metric      RubricJudge: texts and references -> scores
    rubric      what is judged: metrics, points, steps, examples (rubrics/)
    asking      a rubric's prompt (prompts/)
    reading     a reply -> points, or what is wrong with it
    scores      what one text gets
"""
