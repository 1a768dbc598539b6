"""A language model behind an OpenAI-compatible server: httpx, in a thread of its own.

server_model   the ``Model``, its settings and its name
fleet          several servers: routing, retries, giving up
server_http    one exchange; sanitised server messages    addresses   URLs, proxies, certificates
startup        checks before the first question
chat_messages  prompts -> requests; replies -> verdicts
special_tokens texts that a server would read as special tokens
"""

from posh_reward.models.server.server_model import ServerModel

__all__ = ["ServerModel"]
