"""Prompts, the models that answer them and their names, and checks of the answers.

A model is imported when its name is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from posh_reward.errors import InputError
from posh_reward.settings import make, read_settings, settings_of
from posh_reward.shipped import shipped
from posh_reward.types import Failure, PromptImage, Reply, Usage, Verdict

ROUNDING = 1e-3  # by how much probabilities, in half precision say, may miss the sum of 1

NOT_A_VERDICT = Failure("reply", "the judge's answer is not a verdict")
NOT_A_REPLY = Failure("reply", "the judge's answer is not a reply in words")
NO_REASON = Failure("reply", "the judge gave neither an answer nor a reason")
NOT_A_DISTRIBUTION = Failure(
    "reply", "the judge's probabilities are not one per label, from 0 to 1, with the sum 1"
)
UNSOUND = Verdict(None, NOT_A_DISTRIBUTION)


class Prompt(NamedTuple):
    """A user message in two parts: what many questions share, and what is this one's own.

    Prompts sort by prefix first. Those about one pair hold the same prefix object, so thousands
    are hashed and compared without reading the descriptions each time. Prompts with the same words
    and different images are different prompts.
    """

    prefix: str
    suffix: str
    images: tuple[PromptImage, ...] = ()  # shown before the text, in this order

    @property
    def text(self) -> str:
        """The message as one string."""
        return self.prefix + self.suffix

    @property
    def key(self) -> str:
        """The store's key: the text, and the digests of the images if any."""
        return "\0".join((self.text, *(image.digest for image in self.images)))


class Model(Protocol):
    """A language model that answers user messages, thinking off; by name: ``load_model``.

    One bad prompt never spoils its neighbours.
    """

    @property
    def sees(self) -> bool:
        """True if it takes prompts with images."""
        ...

    @property
    def few_calls(self) -> bool:
        """True if few calls suit it better than few tokens.

        So it is where a call has a wait of its own, however little it asks: the decoding steps of a
        card, a network. No answer depends on it.
        """
        ...

    @property
    def name(self) -> str:
        """Model, revision and whatever else its answers depend on, for signatures and stores."""
        ...

    @property
    def usage(self) -> Usage:
        """A running total. Models count tokens; ``models.asker`` counts the rest."""
        ...

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The distribution of each prompt's next token over the labels, renormalised.

        Args:
            prompts: distinct; those with equal images and prefixes stand together.
            labels: one short text each, such as ``"1"``.

        Returns:
            One verdict per prompt, in order; a failure is a verdict with its reason.
        """
        ...

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The greedy reply to each prompt, in order, stripped; cut at ``max_tokens``."""
        ...

    def sleep(self) -> None:
        """Free what can be freed between batches (GPU memory)."""
        ...

    def wake(self) -> None:
        """Get ready for a batch; undoes ``sleep``. The first call loads the model.

        Raises:
            JudgeError: the model cannot work at all; the message names what is missing or too big.
        """
        ...

    def close(self) -> None:
        """Release everything; the model is not used again."""
        ...


class Sleeper(Protocol):
    """A model or a judge, which is awake while it answers."""

    def sleep(self) -> None:
        """Free what can be freed between batches."""
        ...

    def wake(self) -> None:
        """Get ready for a batch."""
        ...


@contextmanager
def awake(*sleepers: Sleeper) -> Iterator[None]:
    """Keep all awake in this context; those that woke sleep again if another one cannot."""
    with ExitStack() as stack:
        for each in sleepers:
            each.wake()
            stack.callback(each.sleep)
        yield


def sound_verdict(verdict: object, labels: int) -> Verdict:
    """The verdict if it can be relied on, else a failure in its place.

    Judges and models are anybody's code. One NaN among a hundred grades would be the mean.

    Args:
        verdict: a judge's or a model's answer to one question.
        labels: how many labels it chose among.
    """
    if not isinstance(verdict, Verdict):
        return Verdict(None, NOT_A_VERDICT)
    if verdict.failure is not None or verdict.probabilities is None:
        return Verdict(None, _reason(verdict.failure))
    try:
        shares, mass = verdict.probabilities, verdict.mass
        if len(shares) != labels or min(shares) < 0 or not 0 <= mass <= 1 + ROUNDING:
            return UNSOUND
        if not abs(sum(shares) - 1) <= ROUNDING:  # nor is NaN
            return UNSOUND
        if type(shares) is tuple and {float}.issuperset(map(type, (*shares, mass))):
            return verdict
        # numpy's numbers cannot be written as JSON.
        return Verdict(tuple(map(float, shares)), None, bool(verdict.unparsed), float(mass))
    except Exception:  # comparing and adding foreign objects may raise anything
        return UNSOUND


def sound_reply(reply: object) -> Reply:
    """The reply if its text can be used, else a failure in its place."""
    if not isinstance(reply, Reply):
        return Reply(None, NOT_A_REPLY)
    if reply.failure is not None or reply.text is None:
        return Reply(None, _reason(reply.failure))
    try:
        reply.text.encode("utf-8")  # half of a surrogate pair cannot be printed or saved
    except (AttributeError, UnicodeEncodeError):
        return Reply(None, NOT_A_REPLY)
    return reply


def savable(text: str) -> str:
    """A model's text that can be saved and printed: no half of a surrogate pair, no control signs.

    JSON can spell both: a file could not be written, and a terminal would be steered.
    """
    saved = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(each for each in saved if each.isprintable() or each in "\n\t")


def _reason(failure: object) -> Failure:
    return failure if isinstance(failure, Failure) else NO_REASON


MODELS = {
    "transformers": "posh_reward.models.packed:TransformersModel",
    "vllm": "posh_reward.models.vllm:VllmModel",
    "server": "posh_reward.models.server:ServerModel",
    "fake-model": "posh_reward.models.fake_model:FakeModel",
}
"""Name -> ``module:class``. A settings file gives the arguments of that class."""

SHIPPED = ("transformers", "vllm")
"""Names that on their own mean the shipped ``configs/judge/NAME.yaml``. A server's address cannot
be shipped."""


OWN_FOLDER = "."
"""The ``model`` of settings that stand in the model's own folder, as a distilled judge's do."""


def model_settings(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """``settings_of``, with the shipped ones for a language model's name on its own.

    ``model: .`` in a settings file is the folder of that file, which may be moved as a whole; other
    paths are relative to the working folder.
    """
    if isinstance(which, str) and which in SHIPPED:
        return read_settings(shipped(f"configs/judge/{which}.yaml"))
    settings = settings_of(which, names, what)
    if settings.get("model") == OWN_FOLDER and isinstance(which, str):
        settings["model"] = str(Path(which).resolve().parent)
    return settings


def model_of(which: str | Mapping[str, Any] | Model, *, sees: bool = False) -> Model:
    """The model that was passed in, or the one of a name or of settings.

    Args:
        which: a name, a settings file or a mapping, as for ``load_model``, or a ``Model``.
        sees: whether it has to take images.

    Raises:
        InputError: it is not a model, or does not take images and has to.
        ConfigError: the settings have a value that cannot be used.
    """
    model: Model = load_model(which) if isinstance(which, str | Mapping) else which
    if not (hasattr(model, "choose") and hasattr(model, "write")):
        raise InputError(f"model is {which!r}: give a name, a settings file or a Model")
    if sees and not model.sees:
        raise InputError(f"{model.name} does not take images: name a model that sees")
    return model


def load_model(which: str | Mapping[str, Any]) -> Model:
    """The model of that name, or as a settings file or mapping describes it.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}``.

    Raises:
        InputError: there is no such name; the message lists those there are.
        ConfigError: the settings have a value that cannot be used.
    """
    settings = model_settings(which, tuple(MODELS), "model")
    settings.pop("preset", None)  # wording of POSH's questions; whoever loads a judge checks it
    model: Model = make(MODELS, settings, "model")
    return model
