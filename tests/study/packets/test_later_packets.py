"""Images and raters added later, and the answers of all packets read together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from posh_reward.errors import InputError
from posh_reward.study.packets.answer_files import collect, record_look
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.later_packets import join_keys, later_items
from posh_reward.study.packets.make import Packet, make_packet
from posh_reward.study.packets.results import results
from posh_reward.study.packets.study_items import StudyItems
from tests.study.packets.studies import items, packet, saved

FIRST = packet(4)
GROWN = items(10)


def later(found: StudyItems = GROWN, *, new: bool = False, coarse: int = 2) -> Packet:
    chosen = later_items(found, FIRST.key, new_raters=new)
    design = Design(8, coarse, 0, 0, before=len(FIRST.key.raters) if new else 0)
    return make_packet(chosen, design, None, {}, earlier=FIRST.key)


def answered(folder: Path, *packets: Packet) -> None:
    for made in packets:
        for name in made.key.raters:
            (folder / f"{made.key.packet}-{name}.json").write_bytes(saved(made.key, name))


def test_the_same_raters_get_only_what_is_new(tmp_path: Path) -> None:
    second = later()
    assert {*second.key.items} == {f"painting-{n}" for n in range(4, 10)}
    assert [*second.key.raters] == ["rater-01", "rater-02"]
    keys = FIRST.key, second.key
    answered(tmp_path, FIRST, second)
    collection = collect(tmp_path.iterdir(), *keys)
    assert (collection.refusals, collection.missing) == ((), ())
    found = results(collection, join_keys(keys))
    [comparison] = found.comparisons
    assert (comparison.items, comparison.raters, comparison.answers) == (10, 2, 10)
    assert [(each.rater, each.tasks, each.answered) for each in found.raters] == [
        ("rater-01", 5, 5), ("rater-02", 5, 5),
    ]  # fmt: skip
    assert found.packet == f"{FIRST.key.packet}+{second.key.packet}"


def test_further_raters_get_all_and_names_of_their_own(tmp_path: Path) -> None:
    second = later(items(4), new=True, coarse=3)
    assert [*second.key.raters] == ["rater-03", "rater-04", "rater-05"]
    keys = FIRST.key, second.key
    answered(tmp_path, FIRST, second)
    [comparison] = results(collect(tmp_path.iterdir(), *keys), join_keys(keys)).comparisons
    assert (comparison.items, comparison.raters, comparison.several) == (4, 5, 4)


def test_a_file_counts_for_its_own_packet(tmp_path: Path) -> None:
    second = later()
    answered(tmp_path, FIRST)
    (tmp_path / "changed.json").write_bytes(saved(second.key, "rater-01").replace(b":60", b":61"))
    collection = collect(tmp_path.iterdir(), FIRST.key, second.key)
    [refusal] = collection.refusals
    assert refusal.reason.startswith("changed since the page saved it")
    assert collection.missing == tuple(f"rater-0{n} of {second.key.packet}" for n in (1, 2))
    [alone] = collect([tmp_path / "changed.json"], FIRST.key).refusals
    assert alone.reason.startswith("foreign")


def test_what_is_not_of_the_study_is_refused() -> None:
    with pytest.raises(InputError, match="all ids are in earlier packets"):
        later(items(4))
    with pytest.raises(InputError, match="the input has 'a', 'b'"):
        later(items(9, ("a", "b")))
    changed = replace(GROWN.items[0], texts={**GROWN.items[0].texts, "sft": "Other."})
    with pytest.raises(InputError, match="'painting-0' has other texts"):
        later(replace(GROWN, items=(changed, *GROWN.items[1:])))
    with pytest.raises(InputError, match="are not of one study"):
        join_keys([FIRST.key, packet(found=items(3, ("a", "b"))).key])
    with pytest.raises(InputError, match="rater-02 has coarse tasks in an earlier packet and gran"):
        make_packet(
            later_items(GROWN, FIRST.key, new_raters=False), Design(8, 1, 1, 0), None, {},
            earlier=FIRST.key,
        )  # fmt: skip


def test_models_keep_the_order_of_the_first_packet() -> None:
    turned = StudyItems(
        GROWN.models[::-1],
        tuple(replace(each, texts=dict(reversed(each.texts.items()))) for each in GROWN.items),
        (),
    )
    assert later(turned).key == replace(later().key, packet=later(turned).key.packet)


def test_what_was_read_as_a_whole_stays_the_measure_of_a_study_that_grows(tmp_path: Path) -> None:
    answered(tmp_path, FIRST)
    collection = collect(tmp_path.iterdir(), FIRST.key)
    looks = tmp_path / "looks.jsonl"
    assert record_look(looks, collection.answers, FIRST.key) == (1.0,)
    second = later()
    answered(tmp_path, second)
    keys = FIRST.key, second.key
    both = collect((f for f in tmp_path.iterdir() if f != looks), *keys)
    assert record_look(looks, both.answers, join_keys(keys)) == (1.0, 2.5)
    assert [json.loads(line)["answers"] for line in looks.read_text().splitlines()] == [4, 10]
