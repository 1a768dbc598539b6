"""Prompts, the models that answer them, models by name, and checks of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from posh_reward.errors import InputError
from posh_reward.settings import make, read_settings, settings_of
from posh_reward.shipped import shipped
from posh_reward.types import Failure, PromptImage, Reply, Usage, Verdict

ROUNDING = 1e-3  # tolerance on sums of probabilities, which may come in half precision

NOT_A_VERDICT = Failure("reply", "the judge's answer is not a verdict")
NOT_A_REPLY = Failure("reply", "the judge's answer is not a reply in words")
NO_REASON = Failure("reply", "the judge gave neither an answer nor a reason")
NOT_A_DISTRIBUTION = Failure(
    "reply", "the judge's probabilities are not one per label, from 0 to 1, with the sum 1"
)
UNSOUND = Verdict(None, NOT_A_DISTRIBUTION)


class Prompt(NamedTuple):
    """A user message in two parts: a prefix that many questions share, and this one's suffix.

    Prompts about one pair share the same prefix object, so comparing thousands of them does not
    read the descriptions each time. Prompts with equal texts and different images are different.
    """

    prefix: str
    suffix: str
    images: tuple[PromptImage, ...] = ()  # placed before the text, in this order

    @property
    def text(self) -> str:
        return self.prefix + self.suffix

    @property
    def key(self) -> str:
        """The store's key: the text and the images' digests."""
        return "\0".join((self.text, *(image.digest for image in self.images)))


class Model(Protocol):
    """A language model that answers user messages, with thinking off; by name: ``load_model``.

    A prompt that fails never affects the others of its call.
    """

    @property
    def sees(self) -> bool:
        """True if the model accepts prompts with images."""

    @property
    def few_calls(self) -> bool:
        """True if fewer calls are cheaper than fewer tokens.

        This holds where each call has a fixed latency: decoding steps on a GPU, a network. Answers
        do not depend on it.
        """

    @property
    def name(self) -> str:
        """Model, revision and everything else answers depend on, for signatures and stores."""

    @property
    def usage(self) -> Usage:
        """Running totals. Models count tokens; ``models.asker`` counts the rest."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The distribution of each prompt's next token over the labels, renormalised.

        Args:
            prompts: distinct; those with equal images and prefixes are adjacent.
            labels: short texts, such as ``"1"``.

        Returns:
            One verdict per prompt, in order; a failed one carries the reason.
        """

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The greedy reply to each prompt, in order, stripped; truncated at ``max_tokens``."""

    def sleep(self) -> None:
        """Free resources between batches (GPU memory)."""

    def wake(self) -> None:
        """Get ready for a batch; undo ``sleep``. The first call loads the model."""

    def close(self) -> None:
        """Release everything; the model cannot be used afterwards."""


class Sleepable(Protocol):
    """A model or a judge, as far as ``awake`` is concerned."""

    def sleep(self) -> None:
        """Free resources between batches."""

    def wake(self) -> None:
        """Get ready for a batch."""


@contextmanager
def awake(*sleepables: Sleepable) -> Iterator[None]:
    """Keep all awake inside this context; if one fails to wake, put the others back to sleep."""
    with ExitStack() as stack:
        for each in sleepables:
            each.wake()
            stack.callback(each.sleep)
        yield


Note = Callable[[int, Any], None]
"""Called with a prompt's place and its answer as soon as there is one, from any thread."""


def ignore(place: int, answer: object) -> None:
    """A ``Note`` that does nothing."""


def checked_verdict(verdict: object, labels: int) -> Verdict:
    """Return the verdict if it is a distribution over ``labels`` labels, otherwise a failed one.

    Judges and models may be third-party code, and a single NaN would turn the mean into NaN.
    """
    if not isinstance(verdict, Verdict):
        return Verdict(None, NOT_A_VERDICT)
    if verdict.failure is not None or verdict.probabilities is None:
        return Verdict(None, _reason(verdict.failure))
    try:
        shares, mass = verdict.probabilities, verdict.mass
        if len(shares) != labels or min(shares) < 0 or not 0 <= mass <= 1 + ROUNDING:
            return UNSOUND
        if not abs(sum(shares) - 1) <= ROUNDING:  # true for NaN, too
            return UNSOUND
        if type(shares) is tuple and {float}.issuperset(map(type, (*shares, mass))):
            return verdict
        # NumPy numbers cannot be written as JSON.
        return Verdict(tuple(map(float, shares)), None, bool(verdict.unparsed), float(mass))
    except Exception:  # arithmetic on foreign objects may raise anything
        return UNSOUND


def checked_reply(reply: object) -> Reply:
    """Return the reply if its text can be used, otherwise a failed one."""
    if not isinstance(reply, Reply):
        return Reply(None, NOT_A_REPLY)
    if reply.failure is not None or reply.text is None:
        return Reply(None, _reason(reply.failure))
    try:
        reply.text.encode("utf-8")  # a lone surrogate cannot be printed or saved
    except (AttributeError, UnicodeEncodeError):
        return Reply(None, NOT_A_REPLY)
    return reply


def savable(text: str) -> str:
    """Make a model's text safe to save and print: no lone surrogates, no control characters.

    JSON can contain both; files would reject the former, and terminals obey the latter.
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
"""Name -> ``module:class``, imported on use. A settings file lists arguments of that class."""

ADDRESSES = ("http://", "https://")  # beginnings of a server's address, which serves as a name
SHIPPED = ("transformers", "vllm")
"""Names that stand for the shipped ``configs/judge/NAME.yaml`` when used alone."""


def model_settings(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return ``settings_of``, or the shipped settings for a model's bare name or address.

    ``model: .`` in a settings file means the folder of that file, so that the folder can be moved;
    other paths are relative to the working directory.
    """
    if isinstance(which, str) and which.startswith(ADDRESSES):
        return read_settings(shipped("configs/judge/local.yaml")) | {"base_urls": [which]}
    if isinstance(which, str) and which in SHIPPED:
        return read_settings(shipped(f"configs/judge/{which}.yaml"))
    settings = settings_of(which, names, what)
    if settings.get("model") == "." and isinstance(which, str):
        settings["model"] = str(Path(which).resolve().parent)
    return settings


def model_of(which: str | Mapping[str, Any] | Model, *, sees: bool = False) -> Model:
    """Return the model that was passed in, or load the one described by a name or settings."""
    model: Model = load_model(which) if isinstance(which, str | Mapping) else which
    if not (hasattr(model, "choose") and hasattr(model, "write")):
        raise InputError(f"model is {which!r}: pass a name, a settings file or a Model")
    if sees and not model.sees:
        raise InputError(f"{model.name} does not take images: choose a vision-language model")
    return model


def load_model(which: str | Mapping[str, Any]) -> Model:
    """Load the model described by a name, a settings file or a mapping.

    Args:
        which: a name, a server's address, a path that ends in ``.yaml`` or ``.json``, or
            ``{"name": ..., ...}``.

    Raises:
        InputError: unknown name; the message lists the known ones.
        ConfigError: a setting has an invalid value.
    """
    settings = model_settings(which, tuple(MODELS), "model")
    settings.pop("preset", None)  # wording of POSH's questions, which ``load_judge`` checks
    model: Model = make(MODELS, settings, "model")
    return model
