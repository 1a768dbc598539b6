"""A language model behind an OpenAI-compatible server: httpx, in a thread of its own.

model: the judge's ``Model``; fleet: who is asked, how often, and what when nobody answers;
http: one exchange; replies: reading them; startup: what a server must have.
"""

from posh_reward.models.server.server_model import ServerModel

__all__ = ["ServerModel"]
