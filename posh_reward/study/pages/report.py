"""Scored rows -> one page to look through: distributions, a table, and each pair's marked texts.

The page needs no network and no other file. Texts are untrusted: they are in it as JSON that
cannot end its element, reach the document through ``textContent`` alone, and the content policy
lets nothing run but our script, by its hash.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from reprlib import repr as short
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.pages.marks import Stretch, preset_of, stretches, wording, worst_first
from posh_reward.study.pages.overview import overview
from posh_reward.study.pages.page import NAMES, TITLES, fill, key, template
from posh_reward.study.pages.pictures import Pictures
from posh_reward.study.rows.journal import Row
from posh_reward.study.rows.scored import AXES, EXPLAINED, elements_in, scores_of, typed
from posh_reward.study.rows.standings import Tally
from posh_reward.study.statistics import Interval, paired_difference
from posh_reward.types import Element, Scores

START = 160
"""Characters of a generation that the table shows; CSS cuts them to what fits."""
KINDS = ("entity", "attribute", "relation")
OVERALL = 2
"""Place of that score in a member of a group."""


@dataclass(slots=True)
class Group:
    """One line of the table: a pair, or what several models wrote under one id."""

    name: str
    members: dict[str, list[Any]] = field(default_factory=dict)
    """By model, "" without one: scores, number of elements, first words, number of the pair."""


@dataclass(slots=True)
class Contents:
    """What a page shows, collected row by row."""

    pictures: Pictures | None
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
        """
        row = typed(row)
        scores = scores_of(row)
        count = len(scores.elements) or elements_in(row)
        number = len(self.pairs)
        model, name = _label(row.get("model")), _label(row.get("id")) or str(number + 1)
        axes = [_rounded(getattr(scores, axis.field)) for axis in AXES]
        group = self._group(name, model)
        group.members[model] = [*axes, count, scores.generation[:START], number]
        place = self.pictures.place(row.get("image")) if self.pictures else None
        pair = [*_pair(scores, self.wordings), place]
        self.pairs.append(script_json(pair, f"pair-{number}"))
        self.tally.add({**row, "model": model, "id": name})
        self.signatures[scores.signature] = None
        self.marked = self.marked or bool(scores.elements)

    def _group(self, name: str, model: str) -> Group:
        """The group that a row joins: that of its id, unless its model is there already."""
        group = self.by_id.get(name) if model else None
        if group is None or model in group.members:
            group = Group(name)
            self.groups.append(group)
            if model:
                self.by_id[name] = group
        return group


def report(
    rows: Iterable[Row],
    title: str = "POSH: mistakes and omissions",
    pictures: Pictures | None = None,
) -> str:
    """One HTML document about scored rows, as ``posh-reward score`` writes them.

    Args:
        rows: read once, one at a time. Without ``elements`` they are shown unmarked. Those of
            one ``id`` by several models are shown side by side.
        title: its heading.
        pictures: makes the small copies of what ``image`` names; None shows no pictures.

    Raises:
        InputError: a row is not a scored row, or there is none.
    """
    contents = Contents(pictures)
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
    models = list(contents.tally.models)
    copies = pictures.copies if pictures else []
    groups = [[g.name, [g.members.get(model) for model in models]] for g in contents.groups]
    values = {
        "title": escape(title),
        "lead": escape(_lead(contents)),
        "overview": overview(contents.tally, _gain(contents.groups, models)),
        "key": key(contents.signatures),
        "footer": "<br>".join(map(escape, [NAMES, *contents.signatures])),
        **_columns(models),
        "models": script_json([model or "(no model)" for model in models]),
        "wordings": script_json(list(contents.wordings)),
        "rows": script_json(groups),
        "pairs": "\n".join(contents.pairs),
        "pictures": "\n".join(script_json(copy, f"picture-{n}") for n, copy in enumerate(copies)),
        "script": template("report.js"),
        "style": template("posh.css") + template("shell.css") + template("report.css"),
    }
    hashes = {f"{name}_hash": policy_hash(values[name]) for name in ("script", "style")}
    return fill(template("report.html"), {**values, **hashes})


def _label(value: object) -> str:
    """A model's or a row's name as text, however odd; "" for none."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)


def _gain(groups: Sequence[Group], models: Sequence[str]) -> Interval | None:
    """How much better the second of two models is overall, over the ids that both have."""
    if len(models) != 2:
        return None
    both = [[group.members[model][OVERALL] for model in models]
            for group in groups if len(group.members) == 2]  # fmt: skip
    known = [pair for pair in both if None not in pair]
    if not known:
        return None
    return paired_difference([after for _, after in known], [before for before, _ in known])


def _columns(models: Sequence[str]) -> dict[str, str]:
    """The headers that only a page about models has."""
    if models == [""]:
        return {"model_column": "", "gain_column": ""}
    gain = ""
    if len(models) == 2:
        before, after = map(escape, models)
        what = f"overall of {after} minus overall of {before}: above 0, {after} is better"
        gain = f'<th class="n wide"><button data-column="5" title="{what}">Gain</button></th>'
    return {"model_column": '<th class="wide model">Model</th>', "gain_column": gain}


def _pair(scores: Scores, wordings: dict[str, int]) -> list[Any]:
    """A pair's marked texts, its elements and its failure. Fills in ``wordings``.

    Marks name elements by their place. A list, since names of fields would be found by a search.
    """
    elements = worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    preset = preset_of(scores.signature)
    texts = [[_run(stretch, places) for stretch in stretches(scores, side)] for side in TITLES]
    packed = [
        _element(element, wordings.setdefault(wording(element, preset), len(wordings)))
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
    failure = None if element.failure is None else str(element.failure)
    names = [element.text, element.identifier, element.other, failure]
    while names and names[-1] is None:
        names.pop()
    return [wording_place, side, kind, _rounded(element.grade), *names]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _lead(contents: Contents) -> str:
    pairs, failed = len(contents.pairs), sum(f.count for f in contents.tally.failures.values())
    lead = f"{pairs:,} pair{'s' * (pairs != 1)}"
    lead += f", {failed:,} of them without a score. " if failed else ". "
    lead += f"{EXPLAINED}. "
    if contents.marked:
        lead += "Open a pair to see its mistakes and omissions in the texts."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    if contents.pictures and contents.pictures.left_out:
        lead += f" Only the first {len(contents.pictures.copies):,} pictures are shown."
    if len(contents.signatures) > 1:
        lead += (
            f" These scores have {len(contents.signatures)} signatures: they are not comparable."
        )
    return lead


def script_json(data: object, element: str | None = None) -> str:
    """JSON that can stand in a script element: it has no ``<``, so it cannot end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair
    if element is None:
        return text
    return f'<script type="application/json" id="{element}">{text}</script>'


def policy_hash(text: str) -> str:
    """What a content policy calls a script or a style that may stand in the page."""
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
