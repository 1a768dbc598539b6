"""Helpers that ask a ``VllmModel`` and its child."""

from collections.abc import Callable
from math import fsum

from posh_reward.models.model import Prompt
from posh_reward.models.vllm import VllmModel
from tests.models.stand_in import masses

LABELS = ["1", "2", "3", "4", "5"]
Make = Callable[..., VllmModel]


def prompts(*suffixes: str) -> list[Prompt]:
    return [Prompt("DESCRIPTION: A dog.\n\n", suffix) for suffix in suffixes]


def ask(model: VllmModel, *suffixes: str) -> list[float | None]:
    return [verdict.grade for verdict in model.choose(prompts(*suffixes), LABELS)]


def right(suffix: str) -> float:
    """The grade that a sound engine gives."""
    [prompt] = prompts(suffix)
    found = masses(prompt.text, len(LABELS))
    return fsum(rank * (mass / fsum(found)) for rank, mass in enumerate(found, 1))


def tell(model: VllmModel, what: str) -> str:
    [reply] = model.write([Prompt("", what)], 100)
    assert reply.text is not None, reply.failure
    return reply.text
