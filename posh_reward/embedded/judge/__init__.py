"""The default judge, which needs no download: it aligns scene graphs; see ``embedded_judge``."""

from posh_reward.embedded.judge.embedded_judge import EmbeddedJudge

__all__ = ["EmbeddedJudge"]
