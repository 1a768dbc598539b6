"""A witness that knows what was drawn, for tests and demos: its answers are never wrong."""

from posh_reward.metrics.posh.judges.oracle.oracle import Oracle

__all__ = ["Oracle"]
