"""Child processes that may crash, hang or be killed and never outlive their parent; locks; bars."""

from posh_reward.process.child import ChildFailureError, ChildProcess

__all__ = ["ChildFailureError", "ChildProcess"]
