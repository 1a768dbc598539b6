"""The reward in other trainers, the metric in other evaluators: one file a framework.

Each imports its framework, so import the one that you use; docs/adapters.md has the lines to paste.

::

    completion_results   parts that they share: rewards by name, answers to failures
    per_sample           the same where a framework asks for one completion at a time
    swift  verl  verifiers  openrlhf  slime  easyr1  nemo_rl      trainers
    inspect_ai  lighteval  lm_eval  hf_evaluate  torchmetrics     evaluators
    score_rows           rows of a corpus, for any engine: ScoreRows
    ray  datatrove                                                engines
"""
