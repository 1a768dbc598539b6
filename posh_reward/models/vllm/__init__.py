"""vLLM beside the trainer, in a child process of each rank.

Two engines in one process share what they must not (the allocator, the trainer's process group,
seeds, batch invariance), so the judge's runs in its own::

    model.py        the trainer's side
    supervisor.py   what becomes of a batch when the child dies
    process.py      one life of the child, with its deadlines
    environment.py  what it is started with: variables, card, interpreter
    answers.py      what crosses the pipe
    boot.py         the child's first lines
    probe.py        which vLLM, which commit of the model
    worker.py       the child's side: reads requests, shows that it lives, ends with its parent
    engine.py       vLLM itself
"""

from posh_reward.models.vllm.vllm_model import VllmModel

__all__ = ["VllmModel"]
