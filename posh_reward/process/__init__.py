"""Child processes that may crash, hang or be killed and never outlive their parent; progress bars.

Libraries that cannot share a process with a trainer (old pins, one engine per process, global
switches) run in a child: Maverick, and vLLM next to a trainer::

    child.py              a child: JSON lines in both directions, each with a deadline
    keeper.py             process between parent and child that ends the child with its parent
    child_environment.py  environment variables of a child; redaction of secrets
    file_lock.py          keep two processes from writing one file
    progress.py           bars on a terminal, lines in a log
    fork_guard.py         refuse to score in a fork made while other threads were scoring
"""

from posh_reward.process.child import ChildFailureError, ChildProcess

__all__ = ["ChildFailureError", "ChildProcess"]
