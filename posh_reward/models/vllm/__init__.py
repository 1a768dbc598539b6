"""vLLM next to the trainer, in one child process per rank.

Two engines in one process would share the allocator, the trainer's process group, seeds and batch
invariance, so the judge's engine runs in its own process::

    vllm_model.py        the trainer's side
    supervisor.py        a batch whose child dies: retries, suspects, giving up
    engine_process.py    one child process, with its deadlines
    vllm_environment.py  the child's variables, GPU and interpreter
    wire.py              messages on the pipe, with images
    boot.py              the child's entry point; version of vLLM and commit of the model
    vllm_worker.py       the child's side: requests, answers, heartbeat
    vllm_engine.py       vLLM itself
"""

from posh_reward.models.vllm.vllm_model import VllmModel

__all__ = ["VllmModel"]
