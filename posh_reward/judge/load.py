"""Names of judges -> judges. Each is imported when asked for."""

from __future__ import annotations

from importlib import import_module

from posh_reward.errors import InputError
from posh_reward.judge.base import Judge

JUDGES = {
    "embedded": "posh_reward.judge.embedded:EmbeddedJudge",
    "fake": "posh_reward.judge.fake:FakeJudge",
}


def load_judge(name: str) -> Judge:
    """The judge of that name, ready to answer.

    Raises:
        InputError: there is none of that name; the message lists those there are.
    """
    if name not in JUDGES:
        raise InputError(f"no judge {name!r}: choose one of {', '.join(JUDGES)}, or pass a Judge")
    module, _, attribute = JUDGES[name].partition(":")
    judge: Judge = getattr(import_module(module), attribute)()
    return judge
