"""Synthetic paintings: seeded, split by content, described as drawn."""

import hashlib

import pytest
from PIL import Image

from posh_reward.datasets import scenes
from posh_reward.errors import InputError

SOME = list(scenes.generate_scenes("train", 60))


def test_the_same_seed_gives_the_same_rows() -> None:
    assert list(scenes.scene_rows("test", 5)) == list(scenes.scene_rows("test", 5))


def test_no_content_is_in_two_splits_whatever_the_seed() -> None:
    contents = {
        split: {
            scene.slots for seed in (0, 1) for scene in scenes.generate_scenes(split, 300, seed)
        }
        for split in scenes.SPLITS
    }
    assert not contents["train"] & contents["test"]
    assert not contents["train"] & contents["validation"]
    assert not contents["validation"] & contents["test"]


def test_no_scene_occurs_twice_in_a_split() -> None:
    assert len({scene.slots for scene in scenes.generate_scenes("train", 500)}) == 500


@pytest.mark.parametrize("scene", SOME[:20], ids=lambda scene: scene.uid)
def test_a_reference_mentions_all_that_is_drawn(scene: scenes.Scene) -> None:
    words = scenes.caption(scene).lower().replace(",", "").replace(".", "").split()
    for subject in filter(None, scene.slots):
        noun = f"{subject.noun}s" if subject.count > 1 else subject.noun
        details = (
            subject.color, subject.hat, subject.held, subject.held_color, subject.size,
            subject.behind, subject.behind_color,
        )  # fmt: skip
        assert {noun, *filter(None, details)} <= set(words)


def test_uneven_captions_name_every_subject_and_leave_details_out() -> None:
    for scene in SOME:
        text = scenes.uneven_caption(scene)
        assert all(subject.noun in text for subject in scene.slots if subject is not None)
        assert len(text.split()) <= len(scenes.caption(scene).split()) + 2  # "there is"
    full = sum(len(scenes.caption(scene).split()) for scene in SOME)
    uneven = sum(len(scenes.uneven_caption(scene).split()) for scene in SOME)
    assert 0.5 < uneven / full < 0.9


@pytest.mark.parametrize("color", scenes.COLORS)
def test_a_garment_is_painted_in_its_color_in_its_slot(color: str) -> None:
    scene = scenes.Scene("one", (None, scenes.Subject("woman", color, pose="stands"), None))
    image = scenes.draw_scene(scene)
    unit = scenes.UNITS_PER_SLOT
    slots = [image.crop((s * unit, 0, (s + 1) * unit, unit)) for s in range(scenes.SLOTS_PER_SCENE)]
    painted = [sum(p == scenes.PAINT[color] for p in _pixels(slot)) for slot in slots]
    assert painted[1] > 100
    assert painted[0] == painted[2] == 0


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(InputError, match="'dev'"):
        list(scenes.scene_rows("dev", 1))  # type: ignore[arg-type]


def _pixels(image: Image.Image) -> list[tuple[int, ...]]:
    data = image.tobytes()
    return [tuple(data[i : i + 3]) for i in range(0, len(data), 3)]


def test_the_scenes_of_earlier_figures_are_still_drawn() -> None:
    first = [scene for split in scenes.SPLITS for scene in scenes.generate_scenes(split, 50, 0)]
    assert hashlib.sha256(repr(first).encode()).hexdigest().startswith("c62a55fb91d079d2")
