"""Prompts, the models that answer them, models by name, and checks of answers.

The second half reads next-token probabilities as verdicts (paper, section 3, step 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from posh_reward.errors import InputError
from posh_reward.settings import build_from_settings, read_settings, resolve_settings
from posh_reward.shipped import shipped_path
from posh_reward.types import Failure, PromptImage, Reply, Usage, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


PROBABILITY_SUM_TOLERANCE = 1e-3  # probabilities may come in half precision

NOT_A_VERDICT = Failure("reply", "the judge's answer is not a verdict")
NOT_A_REPLY = Failure("reply", "the judge's answer is not a reply in words")
NO_REASON = Failure("reply", "the judge gave neither an answer nor a reason")
NOT_A_DISTRIBUTION = Failure(
    "reply", "the judge's probabilities are not one per label, from 0 to 1, with the sum 1"
)
UNSOUND_VERDICT = Verdict(None, NOT_A_DISTRIBUTION)


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
    """A model or a judge, as far as ``keep_awake`` is concerned."""

    def sleep(self) -> None:
        """Free resources between batches."""

    def wake(self) -> None:
        """Get ready for a batch."""


@contextmanager
def keep_awake(*sleepables: Sleepable) -> Iterator[None]:
    """Keep all awake inside this context; if one fails to wake, put the others back to sleep."""
    with ExitStack() as stack:
        for each in sleepables:
            each.wake()
            stack.callback(each.sleep)
        yield


OnAnswer = Callable[[int, Any], None]
"""Called with a prompt's place and its answer as soon as there is one, from any thread."""


def ignore_answer(place: int, answer: object) -> None:
    """An ``OnAnswer`` that does nothing."""


def check_verdict(verdict: object, labels: int) -> Verdict:
    """Return the verdict if it is a distribution over ``labels`` labels, otherwise a failed one.

    Judges and models may be third-party code, and a single NaN would turn the mean into NaN.
    """
    if not isinstance(verdict, Verdict):
        return Verdict(None, NOT_A_VERDICT)
    if verdict.failure is not None or verdict.probabilities is None:
        return Verdict(None, _explain_failure(verdict.failure))
    try:
        shares, mass = verdict.probabilities, verdict.mass
        if len(shares) != labels or min(shares) < 0:
            return UNSOUND_VERDICT
        if not 0 <= mass <= 1 + PROBABILITY_SUM_TOLERANCE:
            return UNSOUND_VERDICT
        if not abs(sum(shares) - 1) <= PROBABILITY_SUM_TOLERANCE:  # true for NaN, too
            return UNSOUND_VERDICT
        if type(shares) is tuple and {float}.issuperset(map(type, (*shares, mass))):
            return verdict
        # NumPy numbers cannot be written as JSON.
        return Verdict(tuple(map(float, shares)), None, bool(verdict.unparsed), float(mass))
    except Exception:  # arithmetic on foreign objects may raise anything
        return UNSOUND_VERDICT


def check_reply(reply: object) -> Reply:
    """Return the reply if its text can be used, otherwise a failed one."""
    if not isinstance(reply, Reply):
        return Reply(None, NOT_A_REPLY)
    if reply.failure is not None or reply.text is None:
        return Reply(None, _explain_failure(reply.failure))
    try:
        reply.text.encode("utf-8")  # a lone surrogate cannot be printed or saved
    except (AttributeError, UnicodeEncodeError):
        return Reply(None, NOT_A_REPLY)
    return reply


def make_savable(text: str) -> str:
    """Make a model's text safe to save and print: no lone surrogates, no control characters.

    JSON can contain both; files would reject the former, and terminals obey the latter.
    """
    saved = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(each for each in saved if each.isprintable() or each in "\n\t")


def _explain_failure(failure: object) -> Failure:
    """Return a failed answer's own reason, or a general one if it has none."""
    if isinstance(failure, Failure):
        return failure
    return NO_REASON


MODELS = {
    "transformers": "posh_reward.models.packed:TransformersModel",
    "vllm": "posh_reward.models.vllm:VllmModel",
    "server": "posh_reward.models.server:ServerModel",
    "fake-model": "posh_reward.models.fake_model:FakeModel",
}
"""Name -> ``module:class``, imported on use. A settings file lists arguments of that class."""

ADDRESS_PREFIXES = ("http://", "https://")  # of a server's address, which serves as a name
SHIPPED_MODELS = ("transformers", "vllm")
"""Names that stand for the shipped ``configs/judge/NAME.yaml`` when used alone."""


def model_settings(which: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return ``resolve_settings``, or the shipped settings for a model's bare name or address.

    ``model: .`` in a settings file means the folder of that file, so that the folder can be moved;
    other paths are relative to the working directory.
    """
    if isinstance(which, str) and which.startswith(ADDRESS_PREFIXES):
        return read_settings(shipped_path("configs/judge/local.yaml")) | {"base_urls": [which]}
    if isinstance(which, str) and which in SHIPPED_MODELS:
        return read_settings(shipped_path(f"configs/judge/{which}.yaml"))
    settings = resolve_settings(which, names, what)
    if settings.get("model") == "." and isinstance(which, str):
        settings["model"] = str(Path(which).resolve().parent)
    return settings


def resolve_model(which: str | Mapping[str, Any] | Model, *, sees: bool = False) -> Model:
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
    model: Model = build_from_settings(MODELS, settings, "model")
    return model


LabelReading = Literal["labels", "top-20"]
"""labels: the probability of every label, however small. top-20: the released code's reading, only
the twenty likeliest tokens, where any token that contains a digit counts for that digit
(``counts_for_label``); with no label among them, the reply counts as the lowest label and is marked
as unparsed."""

TOP_TOKENS = 20  # tokens read by top-20

NOT_NUMBERS = Failure("reply", "the model gave probabilities that are not numbers")
NO_LABEL = Failure("reply", "the model gave no label any probability")

DOUBTFUL_MASS = 0.5  # a reply is doubtful if the labels' total probability is below this
MAX_LABEL_TOKEN_CHARACTERS = 8  # of a label's token, with the marks that tokenizers add


def check_reading(reading: str) -> None:
    """Raise ``InputError`` unless ``reading`` is a ``LabelReading``."""
    if reading not in (readings := get_args(LabelReading)):
        raise InputError(f"unknown reading {reading!r}: choose one of {', '.join(readings)}")


def label_tokens(
    tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], reading: LabelReading = "labels"
) -> tuple[tuple[int, ...], ...]:
    """For each label, the ids of all tokens that count for it (``counts_for_label``).

    ``"1"`` may occur alone, after a space (``"Ġ1"``, ``"▁1"``) and as a byte (``"<0x31>"``).
    """
    ids: dict[str, list[int]] = {label: [] for label in labels}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        possible = len(token) <= MAX_LABEL_TOKEN_CHARACTERS or reading == "top-20"
        if possible and any(label in token for label in labels):
            text = tokenizer.decode([index])
            for label in ids:
                if counts_for_label(text, label, reading):
                    ids[label].append(index)
    return tuple(tuple(ids[label]) for label in labels)


def counts_for_label(token: str, label: str, reading: LabelReading) -> bool:
    """True if a token's text counts for a label: it is the label, up to surrounding whitespace.

    The released code counts every token that *contains* a digit, once for each of its digits: "10"
    and "15" both count for 1, and "15" also for 5. So does ``top-20``, for one-digit labels.
    """
    if reading == "top-20" and len(label) == 1 and label.isdigit():
        return label in token
    return token.strip() == label


def missing_token_failure(labels: Sequence[str], tokens: Sequence[Sequence[int]]) -> Failure | None:
    """Return a failure if ``label_tokens`` found no token for some label."""
    missing = [label for label, ids in zip(labels, tokens, strict=True) if not ids]
    if not missing:
        return None
    return Failure("prompt", f"the model has no single token for the label {missing[0]!r}")


def make_verdict(masses: Sequence[float], reading: LabelReading = "labels") -> Verdict:
    """The verdict for these label probabilities, renormalised."""
    if not all(0 <= each <= 2 for each in masses):  # refuses NaN, too; above 1 may be rounding
        return Verdict(None, NOT_NUMBERS)
    mass = math.fsum(masses)
    if mass > 0:
        return Verdict(tuple(each / mass for each in masses), mass=min(mass, 1.0))
    if reading == "top-20":
        all_on_lowest = (1.0,) + (0.0,) * (len(masses) - 1)
        return Verdict(all_on_lowest, unparsed=True, mass=0.0)
    return Verdict(None, NO_LABEL)


def explain_doubtful_replies(doubtful: float) -> str | None:
    """Give the reason why replies are no judgments, with the remedy; None if most are."""
    if doubtful <= 0.5:
        return None
    return (
        f"does not answer with a grade: in {doubtful:.0%} of its replies the labels have less than "
        "half of the probability, as if it wanted to think first, or to chat. Turn thinking off at "
        "its server (llama-server --reasoning off; vllm serve --default-chat-template-kwargs "
        "'{\"enable_thinking\": false}'), or choose a larger, instruction-tuned model"
    )


def read_distribution(verdict: Verdict) -> tuple[float, ...] | Failure:
    """The probabilities of the labels; a failure if the reply contained no label.

    ``top-20`` turns such a reply into the lowest label with certainty. POSH follows the release in
    that; other metrics must not mistake a missing answer for a certain one.
    """
    if verdict.probabilities is None:
        return verdict.failure or NO_LABEL
    return NO_LABEL if verdict.unparsed else verdict.probabilities


def label_masses(
    log_probabilities: Mapping[int, float], tokens: Sequence[Collection[int]]
) -> list[float]:
    """Probability of each label: the sum over its tokens; missing tokens count as 0."""
    masses = []
    for ids in tokens:
        found = [log_probabilities[i] for i in ids if i in log_probabilities]
        masses.append(math.fsum(map(math.exp, found)))
    return masses
