"""Language models: prompt -> distribution over labels, or text. Nothing here knows a metric.

::

    model      prompts, models, and models by name
    asker      each distinct prompt once, answers kept in a store, counted
    packed/      `name: transformers`   in this process, what prompts share computed once
    vision/      the same, for prompts with images
    vllm/        `name: vllm`           in a child process that may die
    server/      `name: server`         over HTTP
    fake_model   `name: fake-model`     for tests
    chat       messages -> token ids          labels     probabilities -> verdicts
    encoders   texts -> vectors             token_encoder  sentences -> vectors of their tokens
    prompt_images  files, bytes, PIL images -> images of prompts, in a model's sizes
    hub        which weights a name stands for
"""
