"""The reward in other trainers, the metric in other evaluators: one file a framework.

Each imports its framework, so import only the one you use. docs/adapters.md has lines to paste.

::

    completion_results   shared parts: rewards by name, failed completions, merged calls
    swift  verl  verifiers  openrlhf  slime  easyr1  nemo_rl      trainers
    inspect_ai  lighteval  lm_eval                                evaluators
    score_rows           rows of a corpus, for any engine: ScoreRows
    ray  datatrove                                                engines
"""
