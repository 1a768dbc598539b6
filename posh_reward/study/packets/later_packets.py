"""Further packets of a study: adding images or raters, and joining the answers.

A rater name stands for the same person in all packets, and nobody sees a text twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from posh_reward.errors import InputError
from posh_reward.study.packets.study_items import StudyItems
from posh_reward.study.packets.study_records import ItemTexts, PacketKey, Rater


def join_keys(keys: Sequence[PacketKey]) -> PacketKey:
    """One key for all packets of a study, in the order in which they were made.

    Raises:
        InputError: they are not of one study.
    """
    first, *others = keys
    if not others:
        return first
    items: dict[str, ItemTexts] = {}
    raters: dict[str, Rater] = {}
    for key in keys:
        if {*key.models} != {*first.models} or key.reference != first.reference:
            kinds = (
                f"{', '.join(map(repr, each.models))} with{'' if each.reference else 'out'} "
                "correct descriptions"
                for each in (first, key)
            )
            raise InputError(
                f"the packets {first.packet} and {key.packet} are not of one study: "
                f"{', and '.join(kinds)}"
            )
        _check_texts(items, key.items)
        items |= key.items
        check_raters(key.raters, raters)
        for name, rater in key.raters.items():
            before = raters[name].tasks if name in raters else ()
            raters[name] = replace(rater, tasks=(*before, *rater.tasks))
    return replace(
        first,
        packet="+".join(key.packet for key in keys),
        items=items,
        raters=raters,
        identical=tuple({(t.item, frozenset(t.models)): t
                         for key in keys for t in key.identical}.values()),
        incomplete=tuple({name: None for key in keys for name in key.incomplete
                          if name not in items}),
        inputs={name: digest for key in keys for name, digest in key.inputs.items()},
    )  # fmt: skip


def _check_texts(before: Mapping[str, ItemTexts], now: Mapping[str, ItemTexts]) -> None:
    changes = [name for name in now if name in before and before[name] != now[name]]
    if changes:
        raise InputError(
            f"the id {changes[0]!r} has other texts than in an earlier packet: choose a new id"
        )


def later_items(items: StudyItems, earlier: PacketKey, *, new_raters: bool) -> StudyItems:
    """Items of a further packet: new ones for the same raters, or all of them for ``new_raters``.

    Raises:
        InputError: the models differ, a text has changed, or nothing is new.
    """
    if {*items.models} != {*earlier.models}:
        raise InputError(
            f"the study compares {', '.join(map(repr, earlier.models))}, and the input has "
            f"{', '.join(map(repr, items.models))}"
        )
    # Keep the study's order of models, which gives preferences their sign.
    in_order = tuple(
        replace(item, texts={model: item.texts[model] for model in earlier.models})
        for item in items.items
    )
    _check_texts(earlier.items, {each.id: ItemTexts(each.reference, each.texts)
                                 for each in in_order})  # fmt: skip
    new = tuple(item for item in in_order if new_raters or item.id not in earlier.items)
    if not new:
        raise InputError(
            "all ids are in earlier packets: add images, or ask new raters (--new-raters)"
        )
    return StudyItems(earlier.models, new, items.incomplete)


def check_raters(raters: Mapping[str, Rater], earlier: Mapping[str, Rater]) -> None:
    """Raise ``InputError`` if an earlier rater would now get another kind of task."""
    for name, rater in raters.items():
        if name in earlier and earlier[name].form != rater.form:
            raise InputError(
                f"{name} has {earlier[name].form} tasks in an earlier packet and {rater.form} ones "
                "now: ask for as many raters of each kind as before, or for new ones (--new-raters)"
            )
