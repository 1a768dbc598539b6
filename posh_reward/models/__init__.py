"""Language models: prompt -> distribution over labels, or text. Nothing here knows a metric.

::

    model      prompts, models, and models by name
    asker      asks each distinct prompt once; stores and counts answers
    packed/      `name: transformers`   in this process; shared prefixes computed once
    vision/      the same, for prompts with images
    vllm/        `name: vllm`           in a child process that may die
    server/      `name: server`         over HTTP
    fake_model   `name: fake-model`     for tests
    chat       messages -> token ids        labels         probabilities -> verdicts
    encoders   texts -> vectors             token_encoder  sentences -> token vectors
    prompt_images  files, bytes, PIL images -> images of prompts, resized for a model
    hub        commits and fingerprints of weights
"""
