"""Synthetic paintings: seeded, split by content, described as drawn."""

from __future__ import annotations

import hashlib
import io

import pytest
from PIL import Image

from posh_reward.datasets.scenes import drawing, scene_wording, subjects
from posh_reward.datasets.scenes import generate_scenes as scenes
from posh_reward.errors import InputError

SOME = list(scenes.generate("train", 60))


def test_the_same_seed_gives_the_same_rows() -> None:
    assert list(scenes.rows("test", 5)) == list(scenes.rows("test", 5))


def test_another_seed_gives_other_scenes() -> None:
    assert list(scenes.rows("test", 5, seed=1)) != list(scenes.rows("test", 5))


def test_a_longer_split_begins_like_a_shorter_one() -> None:
    assert list(scenes.generate("train", 20))[:7] == list(scenes.generate("train", 7))


def test_no_content_is_in_two_splits_whatever_the_seed() -> None:
    contents = {
        split: {scene.slots for seed in (0, 1) for scene in scenes.generate(split, 300, seed)}
        for split in scenes.SPLITS
    }
    assert not contents["train"] & contents["test"]
    assert not contents["train"] & contents["validation"]
    assert not contents["validation"] & contents["test"]


def test_no_scene_occurs_twice_in_a_split() -> None:
    assert len({scene.slots for scene in scenes.generate("train", 500)}) == 500


@pytest.mark.parametrize("scene", SOME[:20], ids=lambda scene: scene.uid)
def test_a_reference_mentions_all_that_is_drawn(scene: subjects.Scene) -> None:
    words = scene_wording.reference(scene).lower().replace(",", "").replace(".", "").split()
    for subject in filter(None, scene.slots):
        noun = f"{subject.noun}s" if subject.count > 1 else subject.noun
        details = (
            subject.color, subject.hat, subject.held, subject.held_color, subject.size,
            subject.behind, subject.behind_color,
        )  # fmt: skip
        assert {noun, *filter(None, details)} <= set(words)


def test_references_have_the_promised_length() -> None:
    lengths = [len(scene_wording.reference(scene).split()) for scene in SOME]
    assert scenes.WORDS[0] <= min(lengths) <= max(lengths) <= scenes.WORDS[1]


def test_uneven_captions_name_every_subject_and_leave_details_out() -> None:
    for scene in SOME:
        text = scene_wording.uneven(scene)
        assert all(subject.noun in text for subject in scene.slots if subject is not None)
        assert len(text.split()) <= len(scene_wording.reference(scene).split()) + 2  # "there is"
    full = sum(len(scene_wording.reference(scene).split()) for scene in SOME)
    uneven = sum(len(scene_wording.uneven(scene).split()) for scene in SOME)
    assert 0.5 < uneven / full < 0.9


def test_hasty_annotators_are_in_the_majority() -> None:
    scenes_ = list(scenes.generate("train", 400))
    full = [scene_wording.uneven(scene) == scene_wording.reference(scene) for scene in scenes_]
    bare = [" in a " not in scene_wording.uneven(scene) for scene in scenes_]
    assert 0.15 < sum(full) / len(full) < 0.5
    assert 0.3 < sum(bare) / len(bare) < 0.6


def test_plain_scenes_have_neither_hats_nor_poses() -> None:
    drawn = [slot for scene in scenes.generate("test", 50, plain=True) for slot in scene.slots]
    assert all(subject.hat is subject.pose is None for subject in drawn if subject is not None)


def test_alone_each_subject_keeps_its_slot() -> None:
    scene = SOME[0]
    parts = list(scenes.alone(scene))
    assert len(parts) == sum(subject is not None for subject in scene.slots)
    assert all(
        [slot for slot in part.slots if slot] == [scene.slots[place]]
        for part, place in zip(
            parts, (p for p, slot in enumerate(scene.slots) if slot), strict=True
        )
    )


def test_a_second_figure_of_a_class_is_another() -> None:
    woman = subjects.Subject("woman", "red", pose="stands")
    scene = subjects.Scene("twins", (woman, woman, None))
    assert scene_wording.reference(scene).count("another woman in a red dress") == 1


def test_three_birds_fly() -> None:
    scene = subjects.Scene("birds", (None, None, subjects.Subject("bird", "white", count=3)))
    assert "three white birds" in scene_wording.reference(scene)


@pytest.mark.parametrize("color", subjects.COLORS)
def test_a_garment_is_painted_in_its_color_in_its_slot(color: str) -> None:
    scene = subjects.Scene("one", (None, subjects.Subject("woman", color, pose="stands"), None))
    image = drawing.draw(scene)
    unit = drawing.UNIT
    slots = [image.crop((s * unit, 0, (s + 1) * unit, unit)) for s in range(subjects.SLOTS)]
    painted = [sum(p == drawing.PAINT[color] for p in _pixels(slot)) for slot in slots]
    assert painted[1] > 100
    assert painted[0] == painted[2] == 0


def test_a_larger_scale_gives_a_larger_image() -> None:
    (row,) = scenes.rows("test", 1, scale=3)
    assert Image.open(io.BytesIO(row["image"]["bytes"])).size == (504, 168)


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(InputError, match="'dev'"):
        list(scenes.rows("dev", 1))  # type: ignore[arg-type]


def _pixels(image: Image.Image) -> list[tuple[int, ...]]:
    data = image.tobytes()
    return [tuple(data[i : i + 3]) for i in range(0, len(data), 3)]


def test_some_stand_in_front_of_what_is_drawn_behind_them() -> None:
    woman = subjects.Subject("woman", "red", "stands", behind="house", behind_color="blue")
    scene = subjects.Scene("front", (None, woman, None))
    assert "in front of a blue house" in scene_wording.reference(scene)
    slot = drawing.draw(scene).crop((drawing.UNIT, 0, 2 * drawing.UNIT, drawing.UNIT))
    colors = {color for _, color in slot.getcolors(maxcolors=10_000) or []}
    assert {drawing.PAINT["red"], drawing.PAINT["blue"]} <= colors
    assert any(s.behind for some in SOME for s in some.slots if s is not None)


def test_the_scenes_of_earlier_figures_are_still_drawn() -> None:
    first = [scene for split in scenes.SPLITS for scene in scenes.generate(split, 50, 0)]
    assert hashlib.sha256(repr(first).encode()).hexdigest().startswith("c62a55fb91d079d2")
