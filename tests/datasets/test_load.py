"""The same columns from the generator and from the disk; errors that name the remedy."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict, Image

from posh_reward.datasets.load_dataset import (
    SceneOptions,
    answer,
    check_dataset,
    load_images,
    load_rows,
    prompt,
    scene_options,
    with_other_images,
)
from posh_reward.errors import ConfigError, InputError
from tests.datasets.hub_layout import jpeg, write_docent

ROOT = Path(__file__).resolve().parents[2]
SMALL = "scenes:train=4:heldout=3"


def test_scenes_have_the_columns_and_decode_to_images() -> None:
    dataset = load_images(SMALL, "train")
    assert dataset.column_names == ["uuid", "image", "reference"]
    assert len(dataset) == 4
    assert dataset[0]["image"].size == (168, 56)


def test_options_of_scenes() -> None:
    assert scene_options("scenes") == SceneOptions()
    assert scene_options("scenes:train=9:uneven=1").train == 9
    assert load_images("scenes:heldout=2:scale=2", "test")[0]["image"].size == (336, 112)


@pytest.mark.parametrize("name", ["scenes:tarin=9", "scenes:9", "scenes:train=many"])
def test_the_error_on_a_wrong_option_lists_the_options(name: str) -> None:
    with pytest.raises(InputError, match="train, heldout, seed, plain, uneven, scale"):
        load_images(name)


def test_saved_to_disk_and_read_again(tmp_path: Path) -> None:
    test = load_images(SMALL, "test")
    DatasetDict({"test": test}).save_to_disk(tmp_path / "both")
    assert load_images(str(tmp_path / "both"), "test")["reference"][:] == test["reference"][:]
    with pytest.raises(ConfigError, match="no split 'train': use one of test"):
        load_images(str(tmp_path / "both"), "train")


def test_a_parquet_file_without_uuid_gets_one(tmp_path: Path) -> None:
    load_images(SMALL, "test").remove_columns("uuid").to_parquet(tmp_path / "test.parquet")
    dataset = load_images(str(tmp_path / "test.parquet"), "test")
    assert dataset["uuid"][:] == ["test-00000", "test-00001", "test-00002"]
    assert dataset[0]["image"].size == (168, 56)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_images(SMALL, "test").to_parquet(tmp_path / "test.parquet")
    (tmp_path / "file").touch()
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "file" / "cache")
    with pytest.raises(ConfigError, match="set HF_DATASETS_CACHE to a folder"):
        load_images(str(tmp_path / "test.parquet"), "test")


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "test.parquet"
    load_images(SMALL, "test").to_parquet(path)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"cannot read .*test.parquet.*use a directory"):
        load_images(str(path), "test")


def test_an_imagefolder(tmp_path: Path) -> None:
    row = load_images(SMALL, "test")[0]
    folder = tmp_path / "train"
    folder.mkdir()
    row["image"].save(folder / "one.png")
    line = '{"file_name": "one.png", "reference": "A red house."}\n'
    (folder / "metadata.jsonl").write_text(line)
    assert load_images(str(tmp_path), "train")[0]["reference"] == "A red house."


# The CSV reader of datasets leaves its file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["captions.csv", "captions.jsonl", "train/metadata.csv"])
def test_ones_own_table_of_paths_and_texts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own" / name
    file.parent.mkdir(parents=True)
    Path(file.parent, "one.jpg").write_bytes(jpeg(1))
    column = "file_name" if file.stem == "metadata" else "image"
    file.write_text(
        f'{{"{column}": "one.jpg", "reference": "A red house."}}\n'
        if file.suffix == ".jsonl"
        else f"{column},reference\none.jpg,A red house.\n"
    )
    monkeypatch.chdir(tmp_path)  # paths are relative to the table, not to this folder
    given = file if column == "image" else file.parent.parent
    [row] = load_images(str(given))
    assert (row["image"].size, row["reference"]) == ((400, 300), "A red house.")
    gc.collect()  # the reader's file, while its warning is ignored


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_wrong_with_ones_own_table_is_named(tmp_path: Path) -> None:
    table = tmp_path / "captions.csv"
    table.write_text("image,caption\nhttp://127.0.0.1:9/one.jpg,A red house.\n")
    with pytest.raises(ConfigError, match=r"\(\.\.\., reference_column=.*--reference_col"):
        load_images(str(table))
    with pytest.raises(InputError, match=r"1 of 1 images .*FileNotFoundError.*one\.jpg"):
        load_images(str(table), reference_column="caption")  # no address is asked
    table.write_text("file,reference\none.jpg,A red house.\n")
    with pytest.raises(ConfigError, match=r"no column 'image'.*rename its column of images"):
        load_images(str(table))
    gc.collect()


@pytest.mark.parametrize(
    ("asked", "rows"), [("val", 4), ("validation", 4), ("validation[:3]", 3), ("train+val", 12)]
)
def test_val_and_validation_are_one_split(docent: Path, asked: str, rows: int) -> None:
    assert len(load_images(str(docent), asked)) == rows
    val, validation = (load_images("scenes:heldout=2", name) for name in ("val", "validation"))
    assert val["uuid"][:] == validation["uuid"][:]


@pytest.fixture
def docent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return write_docent(tmp_path / "docent")


def test_another_split_is_refused_with_those_that_exist(docent: Path) -> None:
    for split in ("dev", "train+dev", "Test"):
        with pytest.raises(ConfigError, match=r"no split '.*: use one of train, val, test"):
            load_images(str(docent), split)
    with pytest.raises(ConfigError, match="scenes has no split 'dev': use one of train, valid"):
        load_images(SMALL, "dev")
    check_dataset(str(docent), ["train", "validation"])
    with pytest.raises(ConfigError, match="no split 'dev'"):
        check_dataset(str(docent), ["train", "dev"])


def test_a_folder_of_tables_names_its_one_split(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("image,reference\na.png,A dog.\n")
    with pytest.raises(ConfigError, match=r"no split 'trian' \(did you mean 'train'\?\): use one"):
        load_images(str(tmp_path), "trian")


def test_the_sets_of_judgments_load_without_images(tmp_path: Path) -> None:
    judged = {
        "uuid": ["a"], "reference": ["A dog."], "mistakes": ["2_much_better"],
        "model1": ["llava"], "model1_generation": ["A cat."],
        "model2": ["gpt"], "model2_generation": ["A dog."],
    }  # fmt: skip
    (tmp_path / "data").mkdir()
    Dataset.from_dict(judged).to_parquet(tmp_path / "data" / "test-00000-of-00001.parquet")
    [row] = load_rows(str(tmp_path), "test")
    assert row["model1_generation"] == "A cat."
    with pytest.raises(ConfigError, match="no column 'image'"):
        load_images(str(tmp_path), "test")


def test_a_prompt_of_ones_own_is_not_empty() -> None:
    assert prompt("Describe.") == [{"role": "user", "content": "Describe."}]
    assert prompt()[0]["content"].startswith("Generate a detailed description of this painting")
    with pytest.raises(InputError, match="the prompt is empty"):
        prompt(" ")


def with_broken_images(folder: Path) -> str:
    """A parquet file of four rows: sound, truncated, missing, not an image."""
    rows = load_images(SMALL, "train").cast_column("image", Image(decode=False))[:]
    sound = rows["image"][0]["bytes"]
    stored = [sound, sound[: len(sound) // 2], None, b"not an image"]
    rows["image"] = [{"bytes": content, "path": None} for content in stored]
    rows["uuid"] = ["sound", "truncated", "missing", "other"]
    Dataset.from_dict(rows).to_parquet(folder / "train.parquet")
    return str(folder / "train.parquet")


def test_broken_images_are_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 of 4 images") as caught:
        load_images(with_broken_images(tmp_path))
    told = str(caught.value)
    assert all(uuid in told for uuid in ("truncated (", "missing (there is none)", "other ("))
    assert "sound (" not in told
    assert "skip_broken=True" in told


def test_broken_images_are_left_out_on_request(tmp_path: Path) -> None:
    dataset = load_images(with_broken_images(tmp_path), skip_broken=True)
    assert dataset["uuid"][:] == ["sound"]
    assert dataset[0]["image"].size == (168, 56)


def test_without_the_hub_the_error_names_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"amitha/docent.*local copy"):
        load_images("amitha/docent", "test")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("runs/nothere", "no file or folder 'runs/nothere', though there is a folder 'runs'"),
        ("./nothere", "no file or folder './nothere': check the path"),
        ("../nothere", "no file or folder"),
        ("/no/where", "no file or folder"),
        ("one/two/three", "no file or folder"),
        ("captions.csv", "no file or folder"),
        ("scene", r"no dataset 'scene' \(did you mean 'scenes'"),
        ("scense:seed=1", r"did you mean 'scenes'"),
    ],
)
def test_a_missing_folder_is_named_without_asking_the_hub(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ConfigError, match=message):
        load_images(name)


def test_other_images_keep_the_texts_and_write_no_image_again() -> None:
    right = load_images(SMALL, "train")
    other = with_other_images(right)
    texts = right["reference"][:]
    assert other["reference"][:] == [texts[3], *texts[:3]]
    assert [i.tobytes() for i in other["image"]] == [i.tobytes() for i in right["image"]]
    ours, theirs = (each.data.column("image").chunk(0).field("bytes") for each in (right, other))
    assert ours.buffers()[-1].address == theirs.buffers()[-1].address


def test_empty_references_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    images = load_images("scenes:train=3:heldout=1")
    texts = ["A dog.", " ", None]
    dataset = images.remove_columns("reference").add_column("reference", texts)
    dataset.save_to_disk(str(tmp_path / "own"))
    assert len(load_images(str(tmp_path / "own"))) == 3
    assert f"2 of 3 references that are empty, the first for {images['uuid'][1]}" in caplog.text


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("reference", [1, 2], "'reference' holds int64, not texts, or lists of texts"),
        ("reference", [0.5, None], "'reference' holds float64"),
        ("reference", [None, None], "'reference' holds null"),
        ("reference", [[1], [2]], "'reference' holds int64"),
        ("image", [1, 2], "'image' holds int64, not images"),
    ],
)
def test_a_column_of_another_kind_is_refused_when_it_is_loaded(
    tmp_path: Path, column: str, values: list[object], message: str
) -> None:
    picture = {"bytes": (ROOT / "docs/reward.png").read_bytes(), "path": None}
    columns = {"image": [picture] * 2, "reference": ["A dog.", "A cat."], column: values}
    path = tmp_path / "a.parquet"
    Dataset.from_dict(columns).to_parquet(path)
    with pytest.raises(ConfigError, match=message):
        load_images(str(path))


def test_several_references_of_an_image_are_loaded_but_not_learned(tmp_path: Path) -> None:
    picture = {"bytes": (ROOT / "docs/reward.png").read_bytes(), "path": None}
    path = tmp_path / "a.parquet"
    Dataset.from_dict({"image": [picture], "reference": [["A dog.", "A pet."]]}).to_parquet(path)
    [reference] = load_images(str(path))["reference"]
    assert reference == ["A dog.", "A pet."]
    with pytest.raises(InputError, match="SFT learns one text for each image"):
        answer(reference)


def test_without_the_extra_an_import_error_has_the_install_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda n, *rest: None if n == 'datasets' else find(n, *rest)"
    )
    code = "from posh_reward import load_images; load_images('scenes:train=8')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "MissingDependencyError" in done.stderr
    assert "pip install" in done.stderr
    assert "[train]" in done.stderr


@pytest.mark.parametrize("reference", ["A dog.", ["A dog."], "['A dog.']", [None, "A dog."]])
def test_sft_learns_the_text_in_a_reference(reference: object) -> None:
    assert answer(reference) == [{"role": "assistant", "content": "A dog."}]


@pytest.mark.parametrize("reference", ["['A dog.', 'A cat.']", ["a", "b"], {"a": "b"}, " ", None])
def test_sft_learns_no_notation(reference: object) -> None:
    with pytest.raises(InputError, match="SFT learns one text for each image"):
        answer(reference)
