"""Distillation of a judge: a small model learns its answers.

::

    answer_rows     prompts and answers of a question set -> token ids
    answer_trainer  transformers' Trainer with the loss on labels and rewrites
    ship_judge      the trained model -> a folder that loads as a judge, with a model card
"""
