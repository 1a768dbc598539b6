"""People's ratings and preferences for calibration: texts, and rows grouped by image."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from statistics import fmean

import numpy as np

from posh_reward.study.agreement.compare import Figure, Judgments
from posh_reward.study.agreement.metric_scores import CandidateText, TextPair
from posh_reward.study.agreement.preferences import Preferences, preference_figures
from posh_reward.study.agreement.ratings import TextRatings, rating_figures
from posh_reward.study.packets.rater_texts import AXES
from posh_reward.study.packets.results import judgments
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer
from posh_reward.study.statistics import Floats, Ints


@dataclass(frozen=True)
class CalibrationSet:
    """Texts with people's numbers."""

    title: str
    texts: Sequence[CandidateText]
    judgments: Judgments  # grouped by image
    figures: Sequence[Figure]
    # (rows,) the text that each row rates; None if row i compares texts 2 i and 2 i + 1.
    text_of: Ints | None
    columns: Mapping[str, str] = field(default_factory=dict)  # axis -> column of ratings, if any

    @property
    def single_column(self) -> str | None:
        """The column of ratings, if several axes share a single one."""
        names = set(self.columns.values())
        return names.pop() if len(names) == 1 and len(self.columns) > 1 else None

    @property
    def axis_columns(self) -> str:
        """Column of each axis, in words, and unused columns named like an axis."""
        if not self.columns:
            return ""
        axes_of: dict[str, list[str]] = {}
        for axis, column in self.columns.items():
            axes_of.setdefault(column, []).append(axis)
        text = "; ".join(f"{', '.join(axes)}: column {name!r}" for name, axes in axes_of.items())
        row = self.texts[0].row if self.texts else {}
        others = [axis for axis in AXES if axis in row and axis not in axes_of]
        if not others:
            return text
        flags = " ".join(f"--rating {axis}={axis}" for axis in others)
        return f"{text} (not used: {', '.join(others)}; to use them: {flags})"

    @property
    def pairs(self) -> list[TextPair]:
        """(texts,) pairs to grade; several references are joined into one text."""
        return [text.pairs("join")[0] for text in self.texts]

    def rows(self, scores: Floats) -> Floats:
        """Turn (texts, ...) scores into (rows, ...) scores, or differences for preferences."""
        if self.text_of is not None:
            return np.asarray(scores[self.text_of])
        return np.asarray(scores[::2] - scores[1::2])


def rating_set(ratings: TextRatings, columns: Mapping[str, str] | None = None) -> CalibrationSet:
    """Make a set of ratings; ``columns`` has each axis' column of ratings."""
    groups = [_image(ratings.texts[text]) for text in ratings.text_of]
    size = f"{len(ratings.text_of):,} ratings of {len(ratings.texts):,} texts"
    return CalibrationSet(
        f"{ratings.name}: {size}, {len(set(groups)):,} images",
        ratings.texts,
        replace(ratings.judgments, groups=groups),
        rating_figures(ratings),
        ratings.text_of,
        dict(columns or {}),
    )


def preference_set(preferences: Preferences) -> CalibrationSet:
    """Make a set of preferences; equal scores are ties."""
    groups = [_image(text) for text in preferences.texts[::2]]
    strict = replace(preferences, procedure="strict")
    return CalibrationSet(
        f"{preferences.name}: {len(groups):,} pairs, {len(set(groups)):,} images",
        preferences.texts,
        replace(strict.judgments, groups=groups),
        preference_figures(list(preferences.people)),
        None,
    )


def packet_preferences(answers: Sequence[RaterAnswer], key: PacketKey) -> Preferences:
    """Raters' preferences in a packet; a pair counts once, with the mean of its raters."""
    # A hash decides which text of a pair comes first. In the key's order it would always be the
    # same model's; if people prefer that model in nearly all pairs, their numbers hardly vary, and
    # a correlation would be near 0 however well the metric agrees.
    rows_of: dict[tuple[str, str, str], list[dict[str, float]]] = defaultdict(list)
    for row in judgments(answers, key):
        rows_of[row["id"], row["later"], row["earlier"]].append(row)
    texts: list[CandidateText] = []
    signs = []
    for item, *models in rows_of:
        name = "\0".join((key.packet, item, *sorted(models)))
        swap = blake2b(name.encode("utf-8", "surrogatepass")).digest()[0] & 1
        record = key.items[item]
        texts += [
            CandidateText(record.texts[model], (record.reference,), item)
            for model in (models[::-1] if swap else models)
        ]
        signs.append(-1.0 if swap else 1.0)
    people = {
        axis: np.array(signs) * [fmean(row[axis] for row in rows) for rows in rows_of.values()]
        for axis in AXES
    }
    return Preferences(f"packet {key.packet}", texts, people, [item for item, *_ in rows_of])


def _image(text: CandidateText) -> Hashable:
    """The image that a text is grouped by; without a name its references."""
    return text.references if text.image_id is None else text.image_id
