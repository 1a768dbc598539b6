"""A language model behind an OpenAI-compatible server: httpx, in a thread of its own.

server_model  the ``Model``            fleet     which server is asked, how often, when to give up
http          one exchange             replies   reading them
startup       what a server must have  specials  texts that hold special tokens
addresses     URLs, proxies, certificates        words     what servers say, cleaned
messages      prompts -> requests                arguments its settings, checked; its name
"""

from posh_reward.models.server.server_model import ServerModel

__all__ = ["ServerModel"]
