"""Judges that are language models: requests -> prompts -> replies -> verdicts.

::

    judge      PromptJudge: renders, asks each prompt once, keeps answers, counts
    base       Model: who answers; one of
    packed/      `name: transformers`   in this process, what prompts share computed once
    colocated/   `name: vllm`           beside a trainer, in a child process that may die
    server/      `name: server`         over HTTP
    chat       messages -> token ids          labels     probabilities -> verdicts
    revision   which weights a name stands for
"""
