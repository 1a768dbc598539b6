"""vLLM next to the trainer, in one child process per rank.

Two engines in one process would share what they must not share (the allocator, the trainer's
process group, seeds, batch invariance), so the judge's engine runs in a process of its own::

    vllm_model.py        the trainer's side
    supervisor.py        a batch whose child dies: retries, suspects, giving up
    engine_process.py    one life of the child, with its deadlines
    vllm_environment.py  the child's variables, card and interpreter
    wire.py              messages on the pipe, with images
    boot.py              the child's first lines; which vLLM and which model it has
    vllm_worker.py       the child's side: reads requests, answers, shows that it is alive
    vllm_engine.py       vLLM itself
"""

from posh_reward.models.vllm.vllm_model import VllmModel

__all__ = ["VllmModel"]
