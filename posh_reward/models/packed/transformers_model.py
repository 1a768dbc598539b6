"""A causal language model in this process, with transformers: on one GPU, or on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.models.base import Prompt
from posh_reward.models.chat import Chat
from posh_reward.models.labels import (
    TOP,
    LabelReading,
    check_reading,
    label_masses,
    label_tokens,
    no_token,
    verdict,
)
from posh_reward.models.packed import checkpoint
from posh_reward.types import Failure, Reply, Usage, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from posh_reward.models.packed.placement import PlacedWeights
    from posh_reward.models.packed.runner import PromptValues, Runner
    from posh_reward.models.packed.slots import Encoded

    Given = tuple[PreTrainedModel, PreTrainedTokenizerBase]


class TransformersModel:
    """Computes what prompts share once, and reads only the probabilities of the labels.

    All prompts of a call, whichever pair they are about, are packed into passes of up to
    ``max_batch_tokens`` without padding (``packing``). What precedes the questions is kept for
    later calls, until its room is needed or ``sleep`` drops it. The order of the prompts does not
    matter. What else is in a call changes only rounding: by less than 1e-5 of a probability in
    float32, by up to some hundredths of a grade in bfloat16.

    Args:
        model: a folder, or a name on the hub. Safetensors only; no code of theirs is run.
        revision: branch, tag or commit on the hub.
        device: "auto" is this process's card, or the CPU without one.
        dtype: "auto" is the checkpoint's own, on a CPU float32.
        reading: how the label probabilities are read; see ``models.labels.LabelReading``.
        max_batch_tokens: most tokens in a forward pass; halved when memory runs out.
        memory_gb: GiB for the states of tokens; the weights come on top of it. None is half of
            what is free on a card with the weights on it, or 2 on a CPU.
        sleep: between batches move the weights from the card to the host's memory (28 GB per
            process for 14 billion parameters in bfloat16).

    Raises:
        InputError: there is no such reading, or a size is not above 0.
    """

    sees = False

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        reading: LabelReading = "labels",
        max_batch_tokens: int = 8192,
        memory_gb: float | None = None,
        sleep: bool = True,
    ) -> None:
        check_reading(reading)
        if max_batch_tokens < 1 or (memory_gb is not None and memory_gb <= 0):
            raise InputError("max_batch_tokens and memory_gb must be more than 0")
        self.usage = Usage()
        self._model = model
        self._revision = revision
        self._device = device
        self._dtype = dtype
        self._reading: LabelReading = reading
        self._budget = max_batch_tokens
        self._memory_gb = memory_gb
        self._sleep = sleep
        self._from_memory = False
        self._given: Given | None = None
        self._loaded: Loaded | None = None
        self._tokens: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    @classmethod
    def of(
        cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, **options: Any
    ) -> TransformersModel:
        """Wraps a model that is already in memory; puts it into evaluation mode.

        Args:
            model: a causal language model, on one device.
            tokenizer: its own, with a chat template.
            name: for signatures and stores; other weights need another name.
            **options: the class's, except ``revision``, ``device`` and ``dtype``.
        """
        made = cls(name, **options)
        made._from_memory = True
        made._given = (model, tokenizer)
        return made

    @cached_property
    def few_calls(self) -> bool:
        """On a card, where a decoding step takes as long for one phrase as for hundreds."""
        device = self._given[0].device if self._given else checkpoint.chosen_device(self._device)
        return bool(device.type != "cpu")

    @cached_property
    def name(self) -> str:
        """Transformers' version, model, commit (or a folder's fingerprint), dtype and reading.

        Raises:
            JudgeError: there is no such model.
        """
        checkpoint.require_libraries()
        if self._from_memory:
            return f"transformers-{metadata.version('transformers')}:{self._model}:{self._reading}"
        device = checkpoint.chosen_device(self._device)
        config = checkpoint.load_config(self._model, self._commit)
        dtype = str(checkpoint.chosen_dtype(self._dtype, config, device)).removeprefix("torch.")
        folder = Path(self._model)
        called = folder.resolve().name if folder.is_dir() else self._model
        which = f"{called}@{self._identity}"
        return f"transformers-{metadata.version('transformers')}:{which}:{dtype}:{self._reading}"

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The distribution of each prompt's next token over the labels, renormalised.

        Raises:
            JudgeError: the model cannot be loaded.
        """
        from posh_reward.models.packed.logits import log_probabilities

        loaded = self._ready()
        tokens = self._label_tokens(loaded, tuple(labels))
        unreadable = no_token(labels, tokens)
        if unreadable is not None:
            return [Verdict(None, unreadable)] * len(prompts)
        flat = list(chain.from_iterable(tokens))
        top = TOP if self._reading == "top-20" else 0
        read = partial(log_probabilities, tokens=flat, top=top)
        encoded, answers = self._encode(loaded, prompts, 0)
        told = loaded.runner.read([*encoded.values()], read)
        self._count(loaded.runner)
        answers.update(zip(encoded, told, strict=True))
        return [self._verdict(answers[index], flat, tokens) for index in range(len(prompts))]

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The greedy reply to each prompt, in order, stripped; cut at ``max_tokens``.

        Raises:
            JudgeError: the model cannot be loaded.
        """
        loaded = self._ready()
        encoded, answers = self._encode(loaded, prompts, max_tokens)
        written = loaded.runner.write([*encoded.values()], max_tokens, loaded.stops)
        self._count(loaded.runner)
        answers.update(zip(encoded, written, strict=True))
        return [reply_of(loaded, answers[index]) for index in range(len(prompts))]

    def sleep(self) -> None:
        """Drops kept states and, on a card, moves the weights to the host's memory."""
        if self._loaded is None:
            return
        self._loaded.runner.clear(0)
        if self._sleep:
            self._loaded.weights.put_away()

    def wake(self) -> None:
        """Loads the model the first time; later moves its weights back to their device.

        Raises:
            JudgeError: it cannot be loaded; the message names what is missing or too big.
            MissingDependencyError: torch or transformers is not installed.
        """
        self._ready()

    def close(self) -> None:
        """Lets go of the model."""
        self._given = self._loaded = None

    def _ready(self) -> Loaded:
        from posh_reward.models.packed.placement import states_room

        if self._loaded is None:
            self._loaded = self._load()
        loaded, runner = self._loaded, self._loaded.runner
        loaded.weights.bring_back()
        if not runner.states.layers:  # it was asleep: what else is on the card may have changed
            runner.clear(states_room(runner.model.device, loaded.per_token, self._memory_gb))
        return loaded

    def _load(self) -> Loaded:
        checkpoint.require_libraries()
        from posh_reward.models.packed.placement import PlacedWeights, check_packing, context_of
        from posh_reward.models.packed.runner import Runner

        model, tokenizer = self._given or self._from_checkpoint()
        model.eval()
        chat = Chat(tokenizer)
        per_token = check_packing(model, chat)
        runner = Runner(model, self._budget)
        return Loaded(tokenizer, chat, runner, PlacedWeights(model), context_of(model), per_token)

    def _from_checkpoint(self) -> Given:
        if self._from_memory:
            raise JudgeError(
                f"the judge's model {self._model!r} was given in memory, and pickles leave it "
                "out: make the judge again with TransformersModel.of"
            )
        device = checkpoint.chosen_device(self._device)
        config = checkpoint.load_config(self._model, self._commit)
        dtype = checkpoint.chosen_dtype(self._dtype, config, device)
        return checkpoint.load(self._model, self._commit, device, dtype)

    @cached_property
    def _identity(self) -> str:
        """Asked once and kept in pickles: a branch may move between naming and loading."""
        return checkpoint.identity(self._model, self._revision)

    @property
    def _commit(self) -> str | None:
        return None if Path(self._model).is_dir() else self._identity

    def __getstate__(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {"usage": Usage(), "_given": None, "_loaded": None, "_tokens": {}}
        return {**self.__dict__, **fresh}

    def _encode(
        self, loaded: Loaded, prompts: Sequence[Prompt], reply: int
    ) -> tuple[dict[int, Encoded], dict[int, Any]]:
        """By index: prompts in tokens, and failures of those too long for the model."""
        from posh_reward.models.packed.slots import Encoded

        encoded: dict[int, Encoded] = {}
        failures: dict[int, Any] = {}
        for index, (ids, shared) in enumerate(loaded.chat.split(prompts)):
            if len(ids) + reply > loaded.context:
                failures[index] = Failure(
                    "prompt",
                    f"the prompt is longer than the model's context of {loaded.context} tokens",
                )
            else:
                encoded[index] = Encoded.of(ids, shared)
        self.usage.prompt_tokens_submitted += sum(map(len, encoded.values()))
        return encoded, failures

    def _label_tokens(self, loaded: Loaded, labels: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        if labels not in self._tokens:
            self._tokens[labels] = label_tokens(loaded.tokenizer, labels, self._reading)
        return self._tokens[labels]

    def _verdict(
        self, answer: PromptValues, flat: Sequence[int], tokens: Sequence[Sequence[int]]
    ) -> Verdict:
        if isinstance(answer, Failure):
            return Verdict(None, answer)
        self.usage.tokens_decoded += 1
        known = dict(zip(flat, answer, strict=True))
        return verdict(label_masses(known, tokens), self._reading)

    def _count(self, runner: Runner) -> None:
        self.usage.prompt_tokens_computed += runner.computed
        self.usage.tokens_decoded += runner.decoded
        runner.computed = runner.decoded = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that exists once the model is loaded."""

    tokenizer: PreTrainedTokenizerBase
    chat: Chat
    runner: Runner
    weights: PlacedWeights
    context: float
    """How many tokens the model can read; infinity if it does not say."""
    per_token: int
    """Bytes of a token's states."""

    @property
    def stops(self) -> set[int]:
        """Tokens that end a reply."""
        said = getattr(self.runner.model.generation_config, "eos_token_id", None)
        several = said if isinstance(said, list) else [said]
        stops = {*several, self.tokenizer.eos_token_id, self.chat.turn_end}
        return {token for token in stops if token is not None}


def reply_of(loaded: Loaded, reply: list[int] | Failure) -> Reply:
    """The text of a reply, stripped."""
    if isinstance(reply, Failure):
        return Reply(None, reply)
    text: str = loaded.tokenizer.decode(reply, skip_special_tokens=True).strip()
    return Reply(text)
