"""Scored rows -> what a report shows of them: lines of a table, and pairs packed as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.pages.html import script_json
from posh_reward.study.pages.marks import Stretch, names, stretches, wording, worst_first
from posh_reward.study.pages.pair_page import TITLES
from posh_reward.study.pages.thumbnails import Images
from posh_reward.study.rows.dataset_images import OTHER_IMAGES
from posh_reward.study.rows.posh_rows import AXES, elements_in, scores_of, typed
from posh_reward.study.rows.standings import Gain, IdScores, Tally, baseline_of, gains
from posh_reward.study.rows.tables import Row
from posh_reward.types import Element, Scores

START = 160
"""Characters of a generation that the table shows; CSS cuts them to what fits."""
KINDS = ("entity", "attribute", "relation")


@dataclass(slots=True)
class Group:
    """One line of the table: a pair, or what several models wrote under one id."""

    name: str
    members: dict[str, list[Any]] = field(default_factory=dict)
    """By model, "" without one: scores, number of elements, first words, number of the pair."""


@dataclass(slots=True)
class Contents:
    """What a page shows, collected row by row."""

    images: Images | None
    groups: list[Group] = field(default_factory=list)
    by_id: dict[str, Group] = field(default_factory=dict)
    """The last group of each id that has a model."""
    tally: Tally = field(default_factory=Tally)
    pairs: list[str] = field(default_factory=list)
    """As JSON, in script elements."""
    wordings: dict[str, int] = field(default_factory=dict)
    """What was asked, with its place in the list that pairs refer to."""
    signatures: dict[str, None] = field(default_factory=dict)
    marked: bool = False
    """Whether any pair has elements."""

    def add(self, row: Row) -> None:
        """Takes one more scored row.

        Raises:
            InputError: it is not a scored row.
            ConfigError: the dataset's image is of something else.
        """
        row = typed(row)
        scores = scores_of(row)
        count = len(scores.elements) or elements_in(row)
        number = len(self.pairs)
        model, name = _label(row.get("model")), _label(row.get("id")) or str(number + 1)
        axes = [_rounded(getattr(scores, axis.field)) for axis in AXES]
        group = self._group(name, model)
        group.members[model] = [*axes, count, scores.generation[:START], number]
        pair = [*_pair(scores, self.wordings), self._image(row, model)]
        self.pairs.append(script_json(pair, f"pair-{number}"))
        self.tally.add({**row, "model": model, "id": name})
        self.signatures[scores.signature] = None
        self.marked = self.marked or bool(scores.elements)

    def _image(self, row: Row, model: str) -> int | None:
        """The place of a row's image; a text about another image than its id's has none."""
        if self.images is None or model.endswith(OTHER_IMAGES):
            return None
        return self.images.place(row.get("image"), row.get("id"), row.get("reference"))

    def _group(self, name: str, model: str) -> Group:
        """The group that a row joins: the one with its id, unless it has this model already."""
        group = self.by_id.get(name) if model else None
        if group is None or model in group.members:
            group = Group(name)
            self.groups.append(group)
            if model:
                self.by_id[name] = group
        return group

    @property
    def models(self) -> list[str]:
        """Their names, in the order in which they came up."""
        return list(self.tally.models)

    def gains(self, baseline: str | None = None) -> list[Gain]:
        """How much better each other model is than the baseline, which is the first by default.

        Raises:
            InputError: there is no such model.
        """
        items: list[IdScores] = [group.members for group in self.groups]
        return gains(items, self.models, baseline_of(self.models, baseline))


def contents_of(rows: Iterable[Row], images: Images | None = None) -> Contents:
    """Collects what a page shows.

    Args:
        rows: as ``posh-reward score`` writes them; read once, one at a time.
        images: makes the small copies of what ``image`` names; None shows no images.

    Raises:
        InputError: a row is not a scored row, or there is none.
        ConfigError: the images' dataset is not what the rows were generated from.
    """
    contents = Contents(images)
    for number, row in enumerate(rows, start=1):
        try:
            contents.add(row)
        except InputError as error:
            raise InputError(
                f"row {number} is not a row of scores ({error}): write them with `posh-reward "
                "score --elements`"
            ) from None
    if not contents.pairs:
        raise InputError("there are no rows to report on")
    return contents


def _label(value: object) -> str:
    """A model's or a row's name as text, however odd; "" for none."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)


def _pair(scores: Scores, wordings: dict[str, int]) -> list[Any]:
    """A pair's marked texts, its elements and its failure. Fills in ``wordings``.

    Marks name elements by their place. It is a list because the page's search would find the names
    of fields.
    """
    elements = worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    texts = [[_run(stretch, places) for stretch in stretches(scores, side)] for side in TITLES]
    packed = [
        _element(element, wordings.setdefault(wording(element, scores.signature), len(wordings)))
        for element in elements
    ]
    return [*texts, packed, None if scores.failure is None else str(scores.failure)]


def _run(stretch: Stretch, places: Mapping[int, int]) -> list[Any]:
    if not stretch.marked:
        return [stretch.text]
    run = [
        stretch.text,
        _rounded(stretch.lowest),
        sorted(places[id(element)] for element in stretch.elements),
    ]
    return [*run, 1] if stretch.level == "seen" else run


def _element(element: Element, wording_place: int) -> list[Any]:
    side = list(TITLES).index(element.direction)
    kind = KINDS.index(element.kind)
    filling = names(element)
    while filling and filling[-1] is None:
        filling.pop()
    return [wording_place, side, kind, _rounded(element.grade), *filling]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
