"""Prompts with images, with transformers in this process.

An image is computed once for all questions about it, with the text that they begin with, and kept
for later calls. What is each question's own is computed in plain padded batches::

    shown    prompt -> tokens; image -> patches
    states   what is known of tokens: computed once, seen by many rows
    runner   reads the ends of prompts, writes greedy replies
    check    compares them with a plain forward pass, once
"""
