"""vLLM next to the trainer, in one child process per rank.

Two engines in one process would share what they must not share (the allocator, the trainer's
process group, seeds, batch invariance), so the judge's engine runs in a process of its own::

    vllm_model.py      the trainer's side
    supervisor.py      what happens to a batch when the child dies
    engine_process.py  one life of the child, with its deadlines
    environment.py     what the child is started with: variables, card, interpreter
    answers.py         what crosses the pipe
    sight.py           images there, and how a model is shown them
    boot.py            the child's first lines
    probe.py           which vLLM, which commit of the model
    worker.py          the child's side: reads requests, answers, shows that it is alive
    engine.py          vLLM itself
"""

from posh_reward.models.vllm.vllm_model import VllmModel

__all__ = ["VllmModel"]
