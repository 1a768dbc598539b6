"""Prompts with images, with transformers in this process.

An image, and the text after it that questions share, are computed once and cached for later calls.
The rest of each question is computed in plain padded batches::

    image_tokens  prompt -> tokens; image -> patches
    image_states  keys and values of tokens: computed once, attended to by many rows
    image_runner  reads logits after prompts, writes greedy replies
    vision_check  compares them with a plain forward pass, once
"""
