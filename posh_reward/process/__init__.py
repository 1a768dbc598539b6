"""Child processes that may crash, hang or be killed, and never outlive this one; their progress.

What libraries cannot do inside a trainer (old pins, one engine per process, global switches) runs
in a process of its own: Maverick, and vLLM next to a trainer::

    child.py              one child: requests and answers as JSON lines, each with a deadline
    keeper.py             the small process between: ends the child with its parent, come what may
    child_environment.py  the user's variables that a child gets, and what no message repeats
    progress.py           bars on a terminal, lines in a log
    fork_guard.py         forks of a process whose other threads score are refused
"""

from posh_reward.process.child import ChildFailureError, ChildProcess

__all__ = ["ChildFailureError", "ChildProcess"]
