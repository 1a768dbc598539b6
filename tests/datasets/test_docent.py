"""Local copies of DOCENT, and an approximation from the museum's tables."""

from __future__ import annotations

import csv
import runpy
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict, load_from_disk
from PIL import Image

from posh_reward.datasets import copies
from posh_reward.datasets.copies import (
    ORIENTATION,
    build_dataset,
    copy_dataset,
    fetch_images,
    resize_images,
    save,
    summary,
)
from posh_reward.datasets.image_files import fit_size
from posh_reward.datasets.load_dataset import load_images
from posh_reward.datasets.national_gallery import Artwork, plain, select
from posh_reward.errors import ConfigError, InputError
from posh_reward.shipped import shipped
from tests.datasets.hub_layout import FEATURES, jpeg

HEADER = (
    "uuid,iiifurl,iiifthumburl,viewtype,sequence,width,height,maxpixels,openaccess,created,"
    "modified,depictstmsobjectid,assistivetext"
).split(",")
LONG = "We look across a forested ravine painted in deep greens and blues. " * 8


def row(number: int, base: str = "https://museum.example/iiif", **changes: str) -> dict[str, str]:
    """A row as the museum publishes it."""
    return {
        "uuid": f"0000000{number}-aaaa-4bbb-8ccc-000000000000",
        "iiifurl": f"{base}/{number}",
        "iiifthumburl": "",
        "viewtype": "primary",
        "sequence": "0",
        "width": "400",
        "height": "300",
        "maxpixels": "",
        "openaccess": "1",
        "created": "2020-01-01",
        "modified": "2020-01-01",
        "depictstmsobjectid": str(number),
        "assistivetext": LONG,
    } | changes


def table(folder: Path, *rows: dict[str, str], header: list[str] = HEADER) -> Path:
    file = folder / "published_images.csv"
    with file.open("w", encoding="utf-8", newline="") as written:
        writer = csv.DictWriter(written, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return file


def test_rows_are_chosen_and_the_others_counted(tmp_path: Path) -> None:
    images = table(
        tmp_path,
        row(1, sequence="2"),
        row(2, depictstmsobjectid="1"),  # the same work's first image
        row(3, viewtype="alternate"),
        row(4, openaccess="0"),
        row(5, assistivetext=""),
        row(6, assistivetext="A red house."),
        row(7, width=""),
        row(8, assistivetext=f"<i>Seascape</i>:\n{LONG}"),
    )
    chosen = select(images)
    assert [(work.object_id, work.iiif[-1]) for work in chosen.works] == [(1, "2"), (8, "8")]
    assert chosen.works[1].description.startswith("Seascape : We look")
    assert chosen.left_out == Counter(
        [
            "another image of the same work",
            "not the primary view",
            "not open access",
            "no description",
            "fewer than 60 words",
            "incomplete",
        ]
    )


def test_older_tables_mark_fair_use_by_a_bound_on_pixels(tmp_path: Path) -> None:
    old = [name for name in HEADER if name != "openaccess"]
    images = table(tmp_path, row(1), row(2, maxpixels="640"), header=old)
    assert [work.object_id for work in select(images).works] == [1]


def test_classifications_come_from_the_other_table(tmp_path: Path) -> None:
    images = table(tmp_path, row(1), row(2))
    objects = tmp_path / "objects.csv"
    objects.write_text(
        "objectid,title,classification\n1,Bowl,Decorative Art\n2,May Night,Painting\n"
    )
    [work] = select(images, objects, classifications=["Painting"]).works
    assert (work.title, work.classification) == ("May Night", "Painting")
    with pytest.raises(ConfigError, match=r"Painting.*pass objects\.csv"):
        select(images, classifications=["Painting"])


def test_a_table_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no column .*assistivetext.* it has .uuid"):
        select(table(tmp_path, header=HEADER[:-1]))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.csv"):
        select(tmp_path / "binary.csv")


def test_splits_depend_on_the_work_alone_and_have_their_shares() -> None:
    splits = Counter(work(number).split for number in range(7000))
    assert [round(splits[name], -3) for name in ("train", "validation", "test")] == [
        4000,
        1000,
        2000,
    ]


def work(number: int, iiif: str = "https://museum.example/iiif/1") -> Artwork:
    return Artwork(f"image-{number}", number, "", "", iiif, 400, 300, LONG)


def test_markup_and_line_breaks_go() -> None:
    assert plain("A <i>red</i>\r\n house,<br/>small  &c < 3") == "A red house, small &c < 3"


def image(width: int = 400, height: int = 300) -> bytes:
    content = BytesIO()
    Image.new("RGB", (width, height), "teal").save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def museum() -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """A IIIF server: its address, the paths it was asked for, and lies by image's number."""
    asked: list[str] = []
    lies: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            status, content, headers = lies.get(self.path.split("/")[2], lambda: answer())()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/iiif", asked, lies
    server.shutdown()
    server.server_close()
    thread.join()


def answer(
    status: int = 200, content: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    return status, image() if content is None else content, headers or {}


def lie(
    status: int, content: bytes | None = None, **headers: str
) -> Callable[[], tuple[int, bytes, dict[str, str]]]:
    return lambda: answer(status, content, headers)


def test_a_dataset_is_built_from_tables_and_addresses(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]]
) -> None:
    base, asked, _ = museum
    works = select(table(tmp_path, *(row(number, base) for number in range(1, 9)))).works
    dataset = build_dataset(works, tmp_path / "pictures", max_pixels=30_000, quiet=True)
    save(dataset, tmp_path / "gallery")
    assert asked[0].endswith("/full/!200,150/0/default.jpg")
    assert "200 x 150" in summary(dataset)
    for file in (tmp_path / "pictures").iterdir():
        file.unlink()  # the saved dataset has the images in it
    split = next(iter(dataset))
    loaded = load_images(str(tmp_path / "gallery"), split)
    assert loaded[0]["image"].size == (200, 150)
    assert loaded[0]["reference"] == LONG.strip()
    with pytest.raises(InputError, match="gallery already exists: choose another folder"):
        save(dataset, tmp_path / "gallery")


def test_broken_images_are_named_and_the_others_are_not_fetched_again(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MOST_BYTES", 100_000)
    base, asked, lies = museum
    half = image()[: len(image()) // 2]
    lies |= {
        "2": lie(404),
        "3": lie(200, half),
        "4": lie(200, b"<html>not here</html>"),
        "5": lie(200, b"x" * 200_000),
        "6": lie(200, Content_Encoding="gzip"),
        "7": lie(302, b"", Location="ftp://elsewhere/image.jpg"),
    }
    works = [work(number, f"{base}/{number}") for number in range(1, 8)]
    with pytest.raises(InputError, match="6 images could not be fetched") as caught:
        build_dataset(works, tmp_path / "pictures", quiet=True)
    assert "image-2 (the server answered 404)" in str(caught.value)
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["image-1.jpg"]

    asked.clear()
    lies.clear()
    lies["2"] = lie(404)
    dataset = build_dataset(works, tmp_path / "pictures", skip_broken=True, quiet=True)
    assert sum(len(rows) for rows in dataset.values()) == 6
    assert not any(path.startswith("/iiif/1/") for path in asked)


def test_a_busy_server_is_asked_again(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]]
) -> None:
    base, asked, lies = museum
    busy = iter([answer(429, b""), answer(503, b"")])
    lies["1"] = lambda: next(busy, answer())
    file = tmp_path / "one.jpg"
    assert fetch_images({file: f"{base}/1"}, 10_000, wait=0.01, quiet=True) == {}
    assert len(asked) == 3
    with Image.open(file) as kept:
        assert kept.width * kept.height <= 10_000


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "http://museum.example/1", "http://[::1", "", "https://\x00/"]
)
def test_only_web_addresses_are_asked(tmp_path: Path, address: str) -> None:
    failed = fetch_images({tmp_path / "a.jpg": address}, 100, wait=0, quiet=True)
    assert list(failed) == [tmp_path / "a.jpg"]
    assert list(tmp_path.iterdir()) == []


def test_a_redirection_to_plain_http_is_not_followed(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]]
) -> None:
    base, asked, lies = museum
    lies["1"] = lie(302, b"", Location="http://127.0.0.2/secret")
    file = tmp_path / "one.jpg"
    failed = fetch_images({file: f"{base}/1"}, 10_000, wait=0, quiet=True)
    assert failed == {file: "'http://127.0.0.2/secret' is not an https address"}
    assert len(asked) == 1


def test_what_ends_it_leaves_the_other_images_unasked(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]]
) -> None:
    base, asked, _ = museum
    addresses = {tmp_path / "gone" / f"{n}.jpg": f"{base}/{n}" for n in range(60)}
    with pytest.raises(FileNotFoundError):  # as Ctrl-C, or a full disk
        fetch_images(addresses, 10_000, workers=1, quiet=True)
    assert len(asked) < len(addresses)


def test_a_dead_network_ends_it_early(tmp_path: Path) -> None:
    addresses = {tmp_path / f"{n}.jpg": "http://127.0.0.1:9/iiif" for n in range(60)}
    with pytest.raises(InputError, match="first 20 images"):
        fetch_images(addresses, 100, wait=0, quiet=True)


def test_names_from_a_table_stay_in_the_folder(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]]
) -> None:
    base, _, _ = museum
    hostile = Artwork("../../escaped", 7, "", "", f"{base}/7", 400, 300, LONG)
    build_dataset([hostile], tmp_path / "pictures", quiet=True)
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["object-7.jpg"]
    assert [folder.name for folder in tmp_path.iterdir()] == ["pictures"]


def test_a_copy_has_smaller_images(tmp_path: Path) -> None:
    original = DatasetDict({"test": load_images("scenes:heldout=3:scale=4", "test")})
    original.save_to_disk(tmp_path / "original")
    new_size = partial(fit_size, max_pixels=20_000)
    copy = copy_dataset(str(tmp_path / "original"), splits=["test"], new_size=new_size)
    assert copy["test"]["reference"][:] == original["test"]["reference"][:]
    assert {image.size for image in copy["test"]["image"]} == {(244, 81)}


def test_images_are_resized_upright_in_rgb_and_only_if_need_be(tmp_path: Path) -> None:
    turned, grey, small = BytesIO(), BytesIO(), jpeg(0, (56, 28))
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # to be turned by a quarter
    Image.new("RGB", (400, 200), "red").save(turned, "JPEG", exif=exif)
    Image.new("L", (56, 28), 77).save(grey, "JPEG", quality=95)
    images = [{"bytes": each, "path": None} for each in (turned.getvalue(), grey.getvalue(), small)]
    rows = {"uuid": ["a", "b", "c"], "image": images, "reference": ["A red house."] * 3}
    Dataset.from_dict(rows, features=FEATURES).to_parquet(tmp_path / "own.parquet")
    new_size = partial(fit_size, max_pixels=20_000)
    resized = resize_images(load_images(str(tmp_path / "own.parquet")), new_size)
    assert [image.size for image in resized["image"]] == [(100, 200), (56, 28), (56, 28)]
    assert resized[1]["image"].getpixel((5, 5)) == (77, 77, 77)
    assert resized.data.column("image")[2].as_py()["bytes"] == small
    assert resize_images(resized, new_size) is resized


def test_the_command_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = DatasetDict({"test": load_images("scenes:heldout=2", "test")})
    saved.save_to_disk(tmp_path / "original")
    command = runpy.run_path(str(shipped("data/docent.py")))["main"]
    output = tmp_path / "copy"
    command(["copy", str(tmp_path / "original"), "--splits", "test", "--output", str(output)])
    assert "test              2" in capsys.readouterr().out
    assert len(load_images(str(output), "test")) == 2


def test_a_copy_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    dataset = DatasetDict({"test": load_images("scenes:heldout=2", "test")})
    others = tmp_path / "others"
    others.mkdir()
    (tmp_path / "copy.part").symlink_to(others)  # planted where a part used to be written
    save(dataset, tmp_path / "copy")
    assert (list(others.iterdir()), len(load_from_disk(tmp_path / "copy")["test"])) == ([], 2)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/copy cannot be written: .*: choose another"):
        save(dataset, tmp_path / "file" / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"copy", "copy.part", "file", "others"}


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_the_command_builds(
    tmp_path: Path, museum: tuple[str, list[str], dict[str, Any]], folder: str | None
) -> None:
    csv_file = table(tmp_path, *(row(number, museum[0]) for number in (1, 2)))
    command = runpy.run_path(str(shipped("data/docent.py")))["main"]
    output = tmp_path / "gallery"
    where = [] if folder is None else ["--images", str(tmp_path / folder)]
    command(["build", str(csv_file), "--output", str(output), *where])
    assert len(list((tmp_path / (folder or "gallery_pictures")).iterdir())) == 2
    assert sum(len(rows) for rows in load_from_disk(output).values()) == 2
