"""Sentence readers that are NLI cross-encoders, such as cross-encoder/nli-deberta-v3-xsmall.

A cross-encoder reads a premise and a hypothesis together, and says whether the premise entails the
hypothesis, is neutral or contradicts it. Those at hand were trained on captions, so the premise is
not the whole description, but a *window* of one to three of its sentences. The windows are those
that share most words with the sentence, rare words counting more.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward.errors import InputError, MissingDependencyError, install_command
from posh_reward.models.encoders import (
    DIGEST_DIGITS,
    ENCODER_FILES,
    batches_by_length,
    content_words,
    import_function,
    qualified_name,
)
from posh_reward.types import Failure, Sentence, Usage, Verdict

Pairs = Sequence[tuple[str, str]]
Classify = Callable[[Pairs], Any]
"""Pairs of premise and hypothesis -> for each the probabilities of entailment, neutral and
contradiction: three numbers in this order, or a mapping from the labels' names."""

WINDOWS_VERSION = "nli-1"  # raise it with any change of the windows or of what follows from them
MAX_WINDOW_SENTENCES = 3
WINDOWS_PER_SENTENCE = 4
PAIRS_PER_PASS = 32
MAX_PIECES = 512
PARTS_OF_LABELS = {"entail": 0, "neutral": 1, "contra": 2}
"""Beginnings of a label's name -> its place: "ENTAILMENT", "contradiction", "entailed"."""


class Reading(NamedTuple):
    """What one window says of a sentence."""

    entailment: float
    neutral: float
    contradiction: float


class NliReader:
    """Reads sentences by an NLI cross-encoder.

    Args:
        model: a folder or a name on the hub with a sequence classifier of three labels;
            ``module:function``, or a function (``Classify``).
        device: "cpu", "cuda", or "auto": the GPU if there is one.

    Raises:
        InputError: the model cannot be loaded, or its labels do not tell which is which.
        MissingDependencyError: torch and transformers are not installed.
    """

    def __init__(self, model: str | Classify, device: str = "auto") -> None:
        self.usage = Usage()
        if not isinstance(model, str):
            self._classify, own = model, qualified_name(model)
        elif ":" in model and not Path(model).exists():
            self._classify, own = import_function(model), model
        else:
            self._classify = CrossEncoder(model, device)
            own = self._classify.name
        self.name = f"{WINDOWS_VERSION}/{own}"

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        """One verdict per sentence, in order; a failure of the model is one of the sentence."""
        start = time.perf_counter()
        windows = [list_windows(each) for each in sentences]
        pairs = [
            (window, each.text) for each, own in zip(sentences, windows, strict=True)
            for window in own
        ]  # fmt: skip
        unique = list(dict.fromkeys(pairs))
        readings: dict[tuple[str, str], Reading | Failure] = {}
        for batch in batches_by_length([len(premise) for premise, _ in unique]):
            for first in range(0, len(batch), PAIRS_PER_PASS):
                chosen = [unique[i] for i in batch[first : first + PAIRS_PER_PASS]]
                readings.update(zip(chosen, self._read_pairs(chosen), strict=True))
        verdicts: list[Verdict] = []
        for each, own in zip(sentences, windows, strict=True):
            verdicts.append(settle_windows([readings[window, each.text] for window in own]))
        self.usage.requests += len(sentences)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def _read_pairs(self, pairs: Pairs) -> list[Reading | Failure]:
        """Classify pairs; if that raises, each alone, so that only those at fault fail."""
        try:
            rows = list(self._classify(list(pairs)))
            if len(rows) != len(pairs):
                raise ValueError(f"{len(rows)} readings of {len(pairs)} pairs")
        except MemoryError:
            raise
        except Exception as error:
            if len(pairs) > 1:
                alone: list[Reading | Failure] = []
                for pair in pairs:
                    alone += self._read_pairs([pair])
                return alone
            return [Failure("error", f"the reader raised {type(error).__name__}: {error}")]
        return list(map(read_row, rows))

    def sleep(self) -> None:
        """Stay loaded: it is small."""

    def wake(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Forget the model."""
        self.__dict__.pop("_classify", None)


NOT_PROBABILITIES = Failure(
    "reply",
    "the reader's answer is not the probabilities of entailment, neutral and contradiction",
)


def read_row(row: Any) -> Reading | Failure:
    """Read one answer of a classifier."""
    try:
        if isinstance(row, Mapping):
            places = {place_label(name): float(value) for name, value in row.items()}
            row = [places[place] for place in range(3)]
        shares = [float(value) for value in row]
        sound = len(shares) == 3 and min(shares) >= 0 and abs(sum(shares) - 1) < 1e-3
    except (InputError, KeyError, TypeError, ValueError):
        return NOT_PROBABILITIES
    return Reading(*shares) if sound else NOT_PROBABILITIES


def place_label(label: object) -> int:
    """Return the place of a label among entailment, neutral, contradiction.

    Raises:
        InputError: the label is none of these.
    """
    for beginning, place in PARTS_OF_LABELS.items():
        if str(label).lower().startswith(beginning):
            return place
    raise InputError(
        f"the label {label!r} is not entailment, neutral or contradiction: name an NLI model, or "
        "set id2label in its config.json"
    )


def settle_windows(readings: Sequence[Reading | Failure]) -> Verdict:
    """Combine what the windows say, best first, into one verdict.

    A sentence is supported as far as any window entails it. The rest is contradicted as far as the
    window that bears most on it says so: with .2 entailed at most, and there .1 neutral and .7
    contradiction, 0.8 * 0.7 / 0.8 = 0.7.
    """
    if not readings:
        return Verdict((0.0, 1.0, 0.0))
    found: list[Reading] = []
    for each in readings:
        if isinstance(each, Failure):
            return Verdict(None, each)
        found.append(each)
    supported = min(1.0, max(each.entailment for each in found))
    best = found[0]
    rest = best.neutral + best.contradiction
    contradicted = (1 - supported) * (best.contradiction / rest if rest else 0.0)
    return Verdict((contradicted, 1 - supported - contradicted, supported))


def list_windows(sentence: Sentence) -> list[str]:
    """List the windows of the target that share most words with a sentence, best first."""
    text, sentences = sentence.target.text, sentence.target.sentences
    words = [frozenset(content_words(text[start:end])) for start, end in sentences]
    occurrences = Counter(word for each in words for word in each)
    wanted = frozenset(content_words(sentence.text))

    def overlap(first: int, size: int) -> float:
        shared = wanted.intersection(*[frozenset().union(*words[first : first + size])])
        return math.fsum(math.log(1 + len(words) / occurrences[word]) for word in shared)

    windows: list[tuple[float, int, int]] = []
    for size in range(1, MAX_WINDOW_SENTENCES + 1):
        for first in range(len(words) - size + 1):
            # Among equals the shortest, then the earliest.
            windows.append((-overlap(first, size), size, first))
    best = sorted(windows)[:WINDOWS_PER_SENTENCE]
    return [text[sentences[first][0] : sentences[first + size - 1][1]] for _, size, first in best]


class CrossEncoder:
    """A sequence classifier with the three labels of NLI, run by transformers in float32."""

    def __init__(self, model: str, device: str) -> None:
        try:
            torch = import_module("torch")
            transformers = import_module("transformers")
            cached_file = import_module("transformers.utils").cached_file
        except ImportError:
            raise MissingDependencyError(
                f"the reader {model!r} needs {install_command('train')}"
            ) from None
        self._model, self._device = model, device
        if device == "auto":
            self._device = "cuda" if torch.cuda.is_available() else "cpu"
        digest = hashlib.sha256()
        try:
            for name in ENCODER_FILES:
                digest.update(Path(cached_file(model, name)).read_bytes())
            config = transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"the reader {model!r} cannot be loaded: name judge, embedded, none, or a folder "
                f"or a name on the hub with {', '.join(ENCODER_FILES)} ({error})"
            ) from None
        self.name = digest.hexdigest()[:DIGEST_DIGITS]
        """Digest of weights, tokenizer and configuration; equal for a folder and its hub model."""
        self._columns = find_columns(config.id2label)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_parts"}

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        transformers = import_module("transformers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            self._model, use_fast=True, trust_remote_code=False
        )
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            self._model, dtype="float32", use_safetensors=True, trust_remote_code=False
        )
        return tokenizer, model.to(self._device).eval()

    def __call__(self, pairs: Pairs) -> list[list[float]]:
        """Probabilities of entailment, neutral and contradiction, per pair."""
        tokenizer, model = self._parts
        torch = import_module("torch")
        premises, hypotheses = map(list, zip(*pairs, strict=True))
        # Of a pair that is too long the premise is cut, never the sentence.
        parts = tokenizer(
            premises, hypotheses, max_length=MAX_PIECES, truncation="only_first", padding=True,
            return_tensors="pt",
        ).to(self._device)  # fmt: skip
        with torch.inference_mode():  # (pairs, 3)
            shares = model(**parts).logits.float().softmax(-1)
        rows: list[list[float]] = shares[:, self._columns].tolist()
        return rows


def find_columns(labels: Mapping[Any, str]) -> list[int]:
    """Return the columns of entailment, neutral and contradiction, by a model's ``id2label``.

    Raises:
        InputError: the labels are not these three.
    """
    columns = {place_label(label): int(column) for column, label in labels.items()}
    if len(columns) != 3 or len(labels) != 3:
        raise InputError(
            f"the labels {', '.join(map(str, labels.values()))} are not entailment, neutral and "
            "contradiction: name an NLI model with these three"
        )
    return [columns[place] for place in range(3)]
