"""Prompts with pictures, with transformers in this process.

A picture is computed once for all questions about it, with the text that they begin with, and kept
for later calls. What is each question's own is computed in plain padded batches::

    shown    prompt -> tokens; picture -> patches
    states   what is known of tokens: computed once, seen by many rows
    runner   reads the ends of prompts, writes greedy replies
    check    compares them with a plain forward pass, once
"""
