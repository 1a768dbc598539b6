"""A language model behind an OpenAI-compatible server: httpx, in a thread of its own."""

from posh_reward.models.server.server_model import ServerModel

__all__ = ["ServerModel"]
