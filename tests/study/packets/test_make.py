"""What is handed over is blind, safe, and the same each time."""

import base64
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.errors import InputError
from posh_reward.study.packets import make
from posh_reward.study.packets.draw import Design, draw_tasks, find_identical_pairs
from posh_reward.study.packets.study_records import StudyItem
from posh_reward.tables.engine import Columns
from tests.page_checks import unfilled
from tests.study.packets.studies import EVIL, items, packet

COLUMNS = Columns(id="id")


def row(name: object, model: str | None, **more: Any) -> dict[str, Any]:
    texts = {"generation": f" A {model} dog. ", "reference": "A dog.", "image": "a.png"}
    return {"id": name, "model": model, **texts, **more}


def test_rows_are_grouped_by_id() -> None:
    rows = [row(1, "a"), row(2, "a"), row("1", "b"), row(3, "b")]
    found = make.read_study_items(rows, COLUMNS)
    assert found.models == ("a", "b")
    assert [item.id for item in found.items] == ["1"]
    assert found.items[0].texts == {"a": "A a dog.", "b": "A b dog."}
    assert found.incomplete == ("2", "3")


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (row("1", "a"), "row 2, id '1': the id '1' occurs twice for the model 'a'"),
        (row("1", "b", reference="A cat."), "has the reference 'A cat.', and in an earlier row"),
        (row("1", "b", image="b.png"), "has the image 'b.png', and in an earlier row 'a.png'"),
        (row("1", "b", generation=" "), "no text in the column 'generation'"),
        (row("1", "b", reference=None), "no text in the column 'reference'"),
        (row("1", None), "no model"),
        (row(None, "b"), "the id is missing"),
        (row("2", "a"), "two models are needed to compare, and there is only 'a'"),
        (row("2", "b"), "no id has a generation of every model"),
    ],
)
def test_rows_that_cannot_be_compared_are_named(last: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        make.read_study_items([row("1", "a"), last], COLUMNS)


FOUR = ("llava", "molmo", "claude", "gpt4o")


@given(
    count=st.integers(12, 40), raters=st.integers(9, 12), models=st.integers(2, 3),
    seed=st.integers(0, 2**64), share=st.sampled_from([0, 0.15, 0.5, 1]),
)  # fmt: skip
def test_every_draw_is_fair(count: int, raters: int, models: int, seed: int, share: float) -> None:
    found = items(count, FOUR[:models]).items
    design = Design(seed, coarse=raters, granular=raters, repeated=share, times=3)
    drawn = draw_tasks(found, design)
    for form, per_item in (("coarse", models * (models - 1) // 2), ("granular", models)):
        group = {name: rater for name, rater in drawn.items() if rater.form == form}
        asked = Counter((t.item, frozenset(t.models)) for r in group.values() for t in r.tasks)
        assert len(asked) == count * per_item, "everything is asked"
        several = [times for times in asked.values() if times > 1]
        assert set(several) <= {3}
        assert len(several) == round(share * len(asked))
        for rater in group.values():
            seen = Counter((task.item, model) for task in rater.tasks for model in task.models)
            assert set(seen.values()) == {1}, "no generation is seen twice"
    ids = [task.id for rater in drawn.values() for task in rater.tasks]
    assert len(ids) == len(set(ids))


def test_no_side_or_place_goes_with_an_item_or_a_model() -> None:
    left: Counter[str] = Counter()
    places: dict[str, list[int]] = defaultdict(list)
    for seed in range(600):
        drawn = draw_tasks(items(4).items, Design(seed, coarse=1, repeated=0, times=1))
        for place, task in enumerate(drawn["rater-01"].tasks):
            left[task.item] += task.models[0] == "sft"
            places[task.item].append(place)
    assert all(250 < times < 350 for times in left.values()), left
    assert all(1.35 < sum(each) / len(each) < 1.65 for each in places.values())


def test_four_models_three_raters() -> None:
    """The tightest case: six pairs of an item, of which a rater can be shown only two."""
    drawn = draw_tasks(items(25, FOUR).items, Design(1, coarse=3, repeated=0))
    pairs = Counter(frozenset(t.models) for r in drawn.values() for t in r.tasks)
    assert pairs == {frozenset(pair): 25 for pair in combinations(FOUR, 2)}
    with pytest.raises(InputError, match="2 raters are too few"):
        draw_tasks(items(3, FOUR).items, Design(1, coarse=2, repeated=0))


def test_equal_texts_are_not_asked_and_not_seen_twice() -> None:
    same = StudyItem("x", "A dog.", {"a": "A cat.", "b": "A cat.", "c": "A cow."})
    drawn = draw_tasks([same], Design(0, coarse=2, repeated=0))
    asked = [task.models for rater in drawn.values() for task in rater.tasks]
    assert sorted(map(sorted, asked)) == [["a", "c"], ["b", "c"]]
    assert [len(rater.tasks) for rater in drawn.values()] == [1, 1]
    assert [task.models for task in find_identical_pairs([same])] == [("a", "b")]
    with pytest.raises(InputError, match="2 tasks for 3 raters"):
        draw_tasks([same], Design(0, coarse=3, repeated=0))
    with pytest.raises(InputError, match="nothing to ask"):
        draw_tasks([StudyItem("x", "A dog.", {"a": "A cat.", "b": "A cat."})], Design(0))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"coarse": 0}, "needs raters"),
        ({"repeated": 1.5}, "use a share"),
        ({"times": 0}, "use 1 or more"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(changes: dict[str, int], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Design(seed=0, **changes)


SECRETS = ("sft-run-7", "posh-tuned-9", "painting-of-monet", "secret-file", "in-sft.jsonl")
FIELDS = re.compile(rb"data:image/jpeg;base64,([A-Za-z0-9+/=]+)")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Images whose metadata tell a name: EXIF, a comment, a colour profile."""
    pillow = pytest.importorskip("PIL.Image")
    for n in range(4):
        image = pillow.new("RGB", (60, 40), (60 * n, 90, 30))
        exif = image.getexif()
        exif[0x010E] = f"{SECRETS[0]} {SECRETS[2]}"  # ImageDescription
        path = tmp_path / f"secret-file-{n}.jpg"
        image.save(path, exif=exif, comment=SECRETS[1].encode(), icc_profile=SECRETS[3].encode())
    return tmp_path


def secret_items() -> make.StudyItems:
    models = ("sft-run-7", "posh-tuned-9")
    return make.StudyItems(
        models,
        tuple(
            StudyItem(f"painting-of-monet-{n}", f"A dog with {n} spots.",
                 {model: f"A {color} dog." for model, color in zip(models, ("red", "blue"),
                                                                   strict=True)},
                 f"secret-file-{n}.jpg")
            for n in range(4)
        ),
        (),
    )  # fmt: skip


def test_no_byte_that_goes_to_raters_tells_a_side(images: Path) -> None:
    design = Design(seed=1234567890123, coarse=2, granular=2, repeated=0)
    album, sources = make.Album([images]), {"in-sft.jsonl": "0" * 64}
    made = make.make_packet(secret_items(), design, album, sources)
    assert any(FIELDS.search(data) for data in made.files.values())
    for name, data in made.files.items():
        unpacked = [base64.b64decode(found) for found in FIELDS.findall(data)]
        for text in (name.encode(), data, *unpacked):
            for secret in (*SECRETS, str(design.seed)):
                assert secret.encode() not in text, (name, secret)
        for image in unpacked:
            assert b"Exif" not in image
            assert b"ICC_PROFILE" not in image
    assert all(secret.encode() in made.key_file for secret in SECRETS if secret != "secret-file")


def test_equal_arguments_make_equal_bytes(images: Path) -> None:
    design = Design(seed=5, coarse=2, granular=1, repeated=0)
    made = [make.make_packet(secret_items(), design, make.Album([images]), {}) for _ in range(2)]
    assert made[0].files == made[1].files
    assert made[0].key_file == made[1].key_file


def test_the_seal_holds_for_this_key_only(tmp_path: Path) -> None:
    made = packet()
    make.write_packet(made, tmp_path / "out", tmp_path / "out.key.json")
    key = tmp_path / "out.key.json"
    assert make.read_key(key, tmp_path / "out") == made.key
    assert key.stat().st_mode & 0o077 == 0, "only for its owner"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "rater-01.html" in manifest["files"]
    for name, hashed in manifest["files"].items():
        assert make.sha256_hex((tmp_path / "out" / name).read_bytes()) == hashed
    changed = json.loads(key.read_text())
    changed["models"].reverse()
    key.write_text(json.dumps(changed))
    with pytest.raises(InputError, match="was sealed with another key"):
        make.read_key(key, tmp_path / "out")
    key.write_text("{}")
    with pytest.raises(InputError, match=r"is not a key of a packet \(packet: Field required\)"):
        make.read_key(key)


def test_the_key_never_travels_with_the_packet(tmp_path: Path) -> None:
    made = packet()
    with pytest.raises(InputError, match="would be handed over"):
        make.write_packet(made, tmp_path / "out", tmp_path / "out" / "key.json")
    make.write_packet(made, tmp_path / "out", tmp_path / "key.json")
    names = [path.name for path in (tmp_path / "out").rglob("*")]
    assert "key.json" not in names
    with pytest.raises(InputError, match="already exists"):
        make.write_packet(made, tmp_path / "out", tmp_path / "key2.json")


def evil_items() -> make.StudyItems:
    found = items(2)
    evil = tuple(replace(item, reference=EVIL, texts={"sft": EVIL, "posh-tuned": f"{EVIL} no"})
                 for item in found.items)  # fmt: skip
    return replace(found, items=evil)


def test_a_packet_that_cannot_be_written_leaves_neither_key_nor_folder(tmp_path: Path) -> None:
    made = packet()
    torn = replace(made, files={**made.files, "x" * 300: b""})  # as when the disk is full
    with pytest.raises(OSError, match="too long"):
        make.write_packet(torn, tmp_path / "out", tmp_path / "out.key.json")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns as often as can be, so that races are found."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("many_switches")
def test_two_packets_written_to_one_place_do_not_mix(tmp_path: Path) -> None:
    made = [packet(200, seed=seed) for seed in (1, 2)]
    start = Barrier(len(made))

    def write(each: make.Packet, turn: int) -> str:
        start.wait()
        try:
            make.write_packet(each, tmp_path / f"{turn}", tmp_path / f"{turn}.key.json")
        except InputError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(made)) as pool:
        for turn in range(3):
            said = list(pool.map(write, made, [turn] * len(made)))
            assert sorted(map(bool, said)) == [False, True]
            key = make.read_key(tmp_path / f"{turn}.key.json", tmp_path / f"{turn}")
            assert key == made[said.index("")].key


def test_texts_cannot_end_their_element() -> None:
    for name, data in packet(found=evil_items(), granular=1).files.items():
        if name.endswith(".html"):
            html = data.decode("utf-8")
            assert html.count("<script>") == 1
            assert unfilled(html) == []
            assert "<img" not in html
            [shown] = re.findall(r'<script type="application/json" id="packet">(.*?)</sc', html)
            assert json.loads(shown)["tasks"][0]["reference"] == EVIL
            assert "connect-src" not in html
            assert "default-src 'none'; script-src 'sha256-" in html


def test_a_pipe_and_a_number_without_end_are_not_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    os.mkfifo(tmp_path / "pipe.jpg")
    for image in ("pipe.jpg", "9" * 5000):
        with pytest.raises(InputError, match="1 of 1 images cannot be found or read"):
            make.Album([tmp_path]).load_uris([replace(items(1).items[0], image=image)])
