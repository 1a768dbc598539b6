"""Prompts with images, with transformers in this process.

An image is computed once for all questions about it, with the text that they begin with, and kept
for later calls. What is each question's own is computed in plain padded batches::

    image_tokens  prompt -> tokens; image -> patches
    image_states  keys and values of tokens: computed once, attended to by many rows
    image_runner  reads the ends of prompts, writes greedy replies
    vision_check  compares them with a plain forward pass, once
"""
