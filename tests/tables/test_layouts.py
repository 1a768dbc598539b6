"""Files of other programs: each layout's own example, and layouts written and read back."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.errors import InputError
from posh_reward.tables.layouts import ROW_COLUMNS
from posh_reward.tables.reading import open_rows
from posh_reward.tables.references import ReferenceFile
from posh_reward.tables.tables import MAX_CELL_CHARACTERS, is_missing_cell
from posh_reward.text_values import read_notation, read_texts
from tests.cli.running import Row, rows_in, run, write_rows

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "data" / "examples"
GENERATIONS = {
    "101": "A brown dog sleeps on a red mat beside a window.",
    "102": "Two women in blue dresses carry a basket of fruit.",
    "103": "A man with a hat rows a small boat.",
}
REFERENCES = {
    "101": ("A brown dog sleeps on a striped mat.", "A dog lies under a tall window."),
    "102": (
        "Two women carry a basket of apples.",
        "Women in blue dresses walk along a road.",
    ),
    "103": (
        "A man in a straw hat rows a boat across a lake.",
        "A rower's boat is near the shore.",
    ),
}
BOTH = (
    "rows.jsonlines", "data_frame.json", "data_frame.csv", "excel.csv", "vlmevalkit.tsv",
    "vlmevalkit.xlsx", "lmms_eval_samples.jsonl",
)  # fmt: skip
"""Examples with generations and references."""
ONE_TEXT = ("coco_results.json", "captions_by_id.json", "llava.json", "messages.jsonl")
"""Examples with one text for each id, here a generation."""
MORE_TEXTS = (
    "coco_captions.json", "karpathy.json", "references_by_id.json", "pycocoevalcap.json",
    "label_studio.json", "rows.jsonlines",
)  # fmt: skip
"""Examples with references."""


def example(name: str) -> Path:
    if name.endswith("xlsx"):
        pytest.importorskip("python_calamine")
    return EXAMPLES / name


def by_id(path: Path, column: str) -> dict[str, tuple[str, ...]]:
    with open_rows(str(path), text=column) as rows:
        read = {str(row["id"]): read_texts(row[column]) for row in rows}
    return {id: texts for id, texts in read.items() if isinstance(texts, tuple)}


@pytest.mark.parametrize("name", [*BOTH, *ONE_TEXT])
def test_an_example_has_its_generations(name: str) -> None:
    assert by_id(example(name), "generation") == {id: (t,) for id, t in GENERATIONS.items()}


@pytest.mark.parametrize("name", [*BOTH, *MORE_TEXTS])
def test_an_example_has_its_references(name: str) -> None:
    assert by_id(example(name), "reference") == REFERENCES


@pytest.mark.parametrize("name", [*BOTH, *ONE_TEXT])
def test_every_example_is_scored_alike(name: str, tmp_path: Path) -> None:
    joined = ["--references", EXAMPLES / "coco_captions.json"] if name in ONE_TEXT else []
    out = tmp_path / "scores.jsonl"
    assert run("score", example(name), *joined, "-o", out) == EXIT_OK
    assert [(str(row["id"]), row["generation"]) for row in rows_in(out)] == [*GENERATIONS.items()]
    assert rows_in(out)[1]["reference"] == " ".join(REFERENCES["102"])


@pytest.mark.parametrize("name", ["label_studio.json", "label_studio.csv"])
def test_what_annotators_wrote_is_beside_their_data(name: str, tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    assert run("score", example(name), "--generation", "caption", "-o", out) == EXIT_OK
    assert [row["generation"] for row in rows_in(out)] == [*GENERATIONS.values()]
    assert rows_in(out)[0]["reference"] == " ".join(REFERENCES["101"])


def test_data_readme_lists_every_example() -> None:
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.iterdir() if f"`{path.name}`" not in text] == []


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20)
WORDS = TEXTS.filter(lambda text: bool(text.strip()) and read_notation(text) is None)
Items = dict[str, list[str]]
ITEMS = st.dictionaries(
    st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True).filter(lambda id: id not in ROW_COLUMNS),
    st.lists(WORDS, min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


def as_lines(rows: Sequence[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_csv(rows: Sequence[Row], delimiter: str = ",", start: str = "") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return (start + file.getvalue()).encode()


def rows(items: Items, write: Callable[[list[str]], Any] = list) -> list[Row]:
    return [{"id": id, "reference": write(texts)} for id, texts in items.items()]


def label_studio(items: Items) -> list[Row]:
    return [
        {
            "id": place,
            "data": {"id": id, "image": "a.jpg"},
            "annotations": [
                {"result": [{"type": "textarea", "from_name": "text", "value": {"text": [text]}}]}
                for text in texts
            ],
        }
        for place, (id, texts) in enumerate(items.items())
    ]


def coco(items: Items) -> Row:
    places = dict(enumerate(items))
    return {
        "images": [{"id": place, "file_name": id} for place, id in places.items()],
        "annotations": [
            {"image_id": id, "id": 0, "caption": text}
            for id, texts in items.items()
            for text in texts
        ],
    }


WRITERS: dict[str, Callable[[Items], bytes]] = {
    "lines.jsonl": lambda items: as_lines(rows(items)),
    "lines.json": lambda items: as_lines([*rows(items), {"id": "", "reference": "A dog."}]),
    "blank_lines.json": lambda items: b"\n" + as_lines(
        [*rows(items), {"id": "", "reference": "A dog."}]
    ).replace(b"\n", b"\n\n"),
    "list.json": lambda items: json.dumps(rows(items)).encode(),
    "list.jsonl": lambda items: json.dumps(rows(items)).encode(),
    "indented.json": lambda items: json.dumps(rows(items), indent=2).encode("utf-8-sig"),
    "text.csv": lambda items: as_csv(rows(items, repr)),
    "json.csv": lambda items: as_csv(rows(items, json.dumps)),
    "sep.csv": lambda items: as_csv(rows(items, json.dumps), ";", "sep=;\r\n"),
    "tab.tsv": lambda items: as_csv(rows(items, json.dumps), "\t"),
    "by_id.json": lambda items: json.dumps(items).encode(),
    "by_id_of_records.json": lambda items: json.dumps(
        {id: [{"caption": text} for text in texts] for id, texts in items.items()}
    ).encode(),
    "coco.json": lambda items: json.dumps(coco(items)).encode(),
    "karpathy.json": lambda items: json.dumps(
        {"images": [{"cocoid": id, "sentences": [{"raw": text} for text in texts]}
                    for id, texts in items.items()]}
    ).encode(),
    "label_studio.json": lambda items: json.dumps(label_studio(items)).encode(),
    "frame.json": lambda items: json.dumps(
        {"id": dict(enumerate(items)), "reference": dict(enumerate(items.values()))}
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
@given(items=ITEMS)
def test_what_a_layout_was_written_from_is_read_back(
    name: str, items: Items, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(WRITERS[name](items))
    read = by_id(path, "reference")
    read.pop("", None)
    assert read == {id: tuple(texts) for id, texts in items.items()}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"a": 1}, "is a JSON object with the keys 'a', a layout that is not known"),
        ([1], "item 1: not a JSON object, but 1"),
        ("text", "is not a list of JSON objects, but 'text'"),
        ({"images": [{"id": 1}], "annotations": [{"bbox": []}]}, "annotations without a caption"),
        ({"images": [{"id": 1}]}, "image 0 has no sentences with a raw text"),
        ([{"data": {}, "annotations": [{}]}], "task 1: not as Label Studio exports it"),
        ([{"data": {}, "annotations": [1]}], "task 1: not as Label Studio exports it"),
        (
            [{"messages": [{"role": "user"}]}, {"messages": [{"role": "assistant"}]}],
            "row 2 is not one of conversations",
        ),
        (
            [{"image_id": 1, "caption": "A dog."}, {"image_id": 2}],
            "row 2 is not one of COCO's results",
        ),
    ],
)
def test_another_layout_is_refused_with_its_keys(
    tmp_path: Path, document: object, reason: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error, open_rows(str(path)) as read:
        list(read)
    assert reason in str(error.value)
    assert "a.json" in str(error.value)


def test_what_does_not_join_is_named_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [{"id": place, "generation": "A dog."} for place in range(4)]
    inputs = write_rows(tmp_path / "in.jsonl", said)
    texts = {"0": None, "1": "A dog.", "3": ["A cat."], "9": "A hat."}
    (tmp_path / "refs.json").write_text(json.dumps(texts))
    out = tmp_path / "out.jsonl"
    assert (
        run("score", inputs, "--references", tmp_path / "refs.json", "-o", out) == EXIT_INCOMPLETE
    )
    assert [row["f1"] is None for row in rows_in(out)] == [True, False, True, False]
    told = capsys.readouterr().err
    assert "no reference in" in told
    assert "2 ids ('0', '2')" in told
    assert "that no row has the id of: 1 id ('9')" in told


@pytest.mark.parametrize(
    ("references", "flags", "reason"),
    [
        ({"7": "A dog."}, [], "no id of"),
        ([{"image": 1, "reference": "A dog."}], [], "has no column 'id', but 'image'"),
        ([{"id": 1, "text": "A dog."}], [], "has no column 'reference', but 'id'"),
        ([{"id": 1, "reference": {"a": "b"}}], [], "row 1: the reference is not a text but"),
        ({"1": "A dog."}, ["--id", "uuid"], "has no column 'uuid'"),
        ([], [], "has no references"),
    ],
)
def test_references_that_cannot_be_joined_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    references: object,
    flags: list[str],
    reason: str,
) -> None:
    inputs = write_rows(tmp_path / "in.jsonl", [{"id": 1, "generation": "A dog."}])
    (tmp_path / "refs.json").write_text(json.dumps(references))
    assert main(["score", str(inputs), "--references", str(tmp_path / "refs.json"), *flags]) == (
        EXIT_UNUSABLE
    )
    assert reason in capsys.readouterr().err


@given(items=ITEMS.filter(lambda items: not any(map(is_missing_cell, chain(*items.values())))))
def test_rows_of_one_id_are_references_of_one_image(
    items: Items, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "one_each.csv"
    path.write_bytes(
        as_csv([{"id": id, "reference": text} for id, texts in items.items() for text in texts])
    )
    read = ReferenceFile(str(path))
    assert read.texts == {id: list(dict.fromkeys(texts)) for id, texts in items.items()}


@pytest.mark.parametrize("others", [0, 100])
def test_a_cell_that_unpacks_to_too_much_is_refused(tmp_path: Path, others: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["A dog."] * others + ["a " * (MAX_CELL_CHARACTERS // 2 + 1)]
    path = tmp_path / "small.parquet"
    table = pyarrow.table({"id": range(len(texts)), "generation": texts})
    parquet.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="cells of 'generation' have more than"):
        by_id(path, "generation")


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "generation": "a"}\n{"generation": "b", "x": 0, "id": 2}\n')
    assert by_id(path, "generation") == {"1": ("a",), "2": ("b",)}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"id": 1}, {"id": 1}], "row 2: the id '1' occurs twice: make ids unique, or count rows"),
        ([{"id": 1}, {}], "row 2: the id is missing: fill it in, or count rows with --number-rows"),
        ([{"id": 1}, {"id": None}], "row 2: the id is missing"),
        ([{"id": [1]}], "row 1: the id is not a text or a number"),
        ([{"id": 1, "model": "a"}, {"id": 1, "model": "a"}], "occurs twice for the model 'a'"),
    ],
)
def test_a_row_without_an_identity_is_refused_and_can_be_numbered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Row], reason: str
) -> None:
    whole = [{**row, "generation": "A dog.", "reference": "A dog."} for row in rows]
    path, out = write_rows(tmp_path / "in.jsonl", whole), tmp_path / "out.jsonl"
    assert run("score", path, "-o", out) == EXIT_UNUSABLE
    assert reason in capsys.readouterr().err
    assert run("score", path, "-o", out, "--number-rows") == EXIT_OK
    assert [row["id"] for row in rows_in(out)] == [*range(1, len(rows) + 1)]


def two_models(ids: dict[str, Sequence[int]]) -> list[Row]:
    return [
        {"id": id, "model": model, "generation": f"A dog {id}.", "reference": f"A dog {id}."}
        for model, own in ids.items()
        for id in own
    ]


@pytest.mark.parametrize(
    ("ids", "status", "said"),
    [
        ({"a": range(8), "b": range(8)}, EXIT_OK, "Differences to a"),
        ({"a": range(8), "b": range(8, 16)}, EXIT_UNUSABLE, "'b' and 'a' have no id in common"),
        (
            {"a": range(8), "b": range(7, 16)},
            EXIT_OK,
            "the models have different ids ('a' 8, 'b' 9",
        ),
        (
            {"a": range(8), "b": range(8), "c": [9]},
            EXIT_UNUSABLE,
            "'c' and 'a' have no id in common",
        ),
    ],
)
def test_models_are_compared_by_their_ids(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ids: dict[str, Sequence[int]],
    status: int,
    said: str,
) -> None:
    path = write_rows(tmp_path / "in.jsonl", two_models(ids))
    out, page = tmp_path / "out.jsonl", tmp_path / "page.html"
    assert run("score", path, "-o", out) == EXIT_OK
    assert main(["report", str(out), "-o", str(page)]) == status
    assert said in capsys.readouterr().err
    assert main(["report", str(out), "-o", str(page), "--allow-differences"]) == EXIT_OK


def test_label_studio_numbers_its_tasks_in_csv() -> None:
    with open_rows(str(EXAMPLES / "label_studio.csv")) as rows:
        assert [row["id"] for row in rows] == ["1", "2", "3"]
    read = ReferenceFile(str(EXAMPLES / "label_studio.csv"), id="item")
    assert {id: tuple(texts) for id, texts in read.texts.items()} == REFERENCES


def saved(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def joined(
    tmp_path: Path, inputs: object, references: object, *flags: str
) -> dict[str, str | None]:
    """Score a document against another; the reference of each row, by id."""
    paths = saved(tmp_path / "in.json", inputs), saved(tmp_path / "refs.json", references)
    out = tmp_path / "out.jsonl"
    run("score", paths[0], "--references", paths[1], "-o", out, "--overwrite", *flags)
    return {str(row["id"]): row["reference"] for row in rows_in(out)}


RESULTS = [{"image_id": place, "id": 9 - place, "caption": "A dog."} for place in (4, 5)]
ANNOTATIONS = [
    {"image_id": place, "id": 9 - place, "caption": f"Image {place}."} for place in (4, 5)
]


@pytest.mark.parametrize(
    "references", [ANNOTATIONS, {"images": [{"id": 4}], "annotations": ANNOTATIONS}]
)
def test_a_captions_own_id_names_no_image(tmp_path: Path, references: object) -> None:
    assert joined(tmp_path, RESULTS, references) == {"4": "Image 4.", "5": "Image 5."}


def test_two_columns_of_ids_are_not_guessed_between(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": 4, "image_id": 5, "generation": "A dog."}]
    inputs = write_rows(tmp_path / "in.jsonl", rows)
    references = saved(tmp_path / "refs.json", {"4": "Image 4.", "5": "Image 5."})
    assert run("score", inputs, "--references", references) == EXIT_UNUSABLE
    assert "has the columns id and image_id: name the one" in capsys.readouterr().err
    for flag, expected in (("id", "Image 4."), ("image_id", "Image 5.")):
        out = tmp_path / f"{flag}.jsonl"
        assert run("score", inputs, "--references", references, "--id", flag, "-o", out) == EXIT_OK
        assert rows_in(out)[0]["reference"] == expected


@pytest.mark.parametrize("id", [7, 7.0, "7", "7.0", "0000007", " 7 "])
def test_a_number_is_the_same_id_however_it_is_written(tmp_path: Path, id: object) -> None:
    found = joined(tmp_path, [{"id": id, "generation": "A dog."}], {"7": "A cat.", "a": "A hat."})
    assert [*found.values()] == ["A cat."]
    found = joined(
        tmp_path, [{"id": 7, "generation": "A dog."}], [{"id": id, "reference": "A cat."}]
    )
    assert [*found.values()] == ["A cat."]


def test_ids_that_are_one_number_are_kept_apart(tmp_path: Path) -> None:
    rows = [{"id": id, "generation": "A dog."} for id in ("7", "07", "007")]
    found = joined(tmp_path, rows, {"7": "One.", "07": "Two."})
    assert found == {"7": "One.", "07": "Two.", "007": None}


def test_a_reference_given_twice_counts_once(tmp_path: Path) -> None:
    twice = [{"id": 7, "reference": "A cat."}] * 2
    assert joined(tmp_path, [{"id": 7, "generation": "A dog."}], twice) == {"7": "A cat."}


def task(place: int, **areas: list[str]) -> Row:
    results = [
        {"type": "textarea", "from_name": name, "value": {"text": texts}}
        for name, texts in areas.items()
    ]
    return {"id": place, "data": {"image": "a.jpg"}, "annotations": [{"result": results}]}


SKIPPED: Row = {"id": 9, "data": {"image": "a.jpg"}, "annotations": []}
CANCELLED: Row = {**task(8, text=["No."]), "annotations": [{"was_cancelled": True, "result": []}]}


def test_a_task_without_a_text_has_no_reference(tmp_path: Path) -> None:
    tasks = [SKIPPED, task(1, text=["A cat."]), CANCELLED, task(2, text=[""]), task(3)]
    rows = [{"id": place, "generation": "A dog."} for place in (1, 2, 9)]
    assert joined(tmp_path, rows, tasks) == {"1": "A cat.", "2": None, "9": None}


def test_of_two_text_areas_one_has_to_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [task(1, title=["A title"]), task(2, about=["A cat."])]
    rows = [{"id": place, "generation": "A dog."} for place in (1, 2)]
    assert joined(tmp_path, rows, tasks, "--reference", "about") == {"1": None, "2": "A cat."}
    capsys.readouterr()
    inputs = write_rows(tmp_path / "in.jsonl", rows)
    assert run("score", inputs, "--references", tmp_path / "refs.json") == EXIT_UNUSABLE
    assert "'title', 'about': name the right one with --reference" in capsys.readouterr().err


def test_a_new_text_beside_an_old_one_has_to_be_named(tmp_path: Path) -> None:
    old = {**task(1, about=["A cat."]), "data": {"reference": "An old text."}}
    path = saved(tmp_path / "a.json", [old])
    with pytest.raises(InputError, match="in the area 'about' and in its data's 'reference'"):
        by_id(path, "reference")
    assert by_id(path, "about") == {"1": ("A cat.",)}


FRAMES = {
    "lists": {"id": [1, 2], "reference": ["A dog.", "A cat."]},
    "rows by number": {
        "0": {"id": 1, "reference": "A dog."},
        "1": {"id": 2, "reference": "A cat."},
    },
    "rows by id": {"1": {"reference": "A dog."}, "2": {"reference": "A cat."}},
    "rows that differ": {
        "1": {"caption": "A horse.", "reference": "A dog."},
        "2": {"caption": "A horse.", "reference": "A cat.", "note": "x"},
    },
    "columns by id": {"reference": {"1": "A dog.", "2": "A cat."}},
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_data_frame_is_read_in_any_orientation(tmp_path: Path, frame: object) -> None:
    path = saved(tmp_path / "a.json", frame)
    assert by_id(path, "reference") == {"1": ("A dog.",), "2": ("A cat.",)}


CONTENTS = {
    "parts": (
        [{"type": "text", "text": "A dog "}, {"type": "text", "text": "runs."}],
        "A dog runs.",
    ),
    "output": ([{"type": "output_text", "text": "A dog."}], "A dog."),
    "with an image": ([{"type": "image"}, {"type": "text", "text": "A dog."}], "A dog."),
}


@pytest.mark.parametrize(("content", "text"), CONTENTS.values(), ids=CONTENTS)
def test_a_message_is_one_text(tmp_path: Path, content: object, text: str) -> None:
    row = {"id": 1, "messages": [{"role": "assistant", "content": content}]}
    assert by_id(saved(tmp_path / "a.json", [row]), "generation") == {"1": (text,)}


def test_a_conversation_of_several_turns_is_no_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [{"from": "gpt", "value": "A dog."}, {"from": "gpt", "value": "It is brown."}]
    rows = [{"id": 1, "conversations": turns}, {"id": 2, "conversations": turns[:1]}]
    found = joined(tmp_path, rows, {"1": "A dog.", "2": "A dog."})
    assert len(found) == 2
    assert "has 2 turns of the assistant" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv", "a"])
def test_a_file_is_known_by_what_is_in_it(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / name
    text = '{"id": 1, "reference": "Ein Bär."}\n{"id": 2, "reference": "A cat."}\n'
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    path.write_bytes((mark + text).encode(encoding))
    assert by_id(path, "reference") == {"1": ("Ein Bär.",), "2": ("A cat.",)}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_a_separator_is_known_by_the_header(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    path.write_bytes(as_csv(rows({"7": ["A dog; a cat, a hat."]}, json.dumps), delimiter))
    assert by_id(path, "reference") == {"7": ("A dog; a cat, a hat.",)}


def test_models_in_files_of_their_own_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outs = []
    for name in ("first", "second"):
        said = [{"image_id": place, "caption": f"A {name} dog."} for place in range(6)]
        out = tmp_path / f"{name}.jsonl"
        truths = saved(tmp_path / "refs.json", {str(place): "A dog." for place in range(6)})
        results = saved(tmp_path / f"{name}.json", said)
        assert run("score", results, "--references", truths, "-o", out) == EXIT_OK
        outs.append(str(out))
    assert main(["report", *outs, "-o", str(tmp_path / "page.html")]) == EXIT_OK
    assert "Differences to first" in capsys.readouterr().err


def test_an_audit_counts_rows_without_a_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"reference": "A red dog sleeps."}\n{"id": 2}\n{"reference": " "}\n')
    assert main(["audit-references", str(path)]) == 1
    assert "without a text: 2 (rows 2, 3)" in capsys.readouterr().out


def test_a_row_may_lack_what_others_have(tmp_path: Path) -> None:
    rows = [{"id": 1, "reference": "A dog."}, {"id": 2, "generation": "A dog.", "reference": "A."}]
    out = tmp_path / "out.jsonl"
    assert run("score", write_rows(tmp_path / "in.jsonl", rows), "-o", out) == EXIT_INCOMPLETE
    assert [row["f1"] is None for row in rows_in(out)] == [True, False]


def test_captions_of_coco_need_no_images(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", {"annotations": ANNOTATIONS, "images": []})
    assert by_id(path, "reference") == {"4": ("Image 4.",), "5": ("Image 5.",)}


def test_a_row_without_an_id_does_not_take_those_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"generation": "A dog.", "reference": "A dog."}] * 2
    path = write_rows(tmp_path / "in.jsonl", [rows[0], {"id": "x7", **rows[1]}])
    assert run("score", path) == EXIT_UNUSABLE
    assert "row 2: the first row has no id, and this one has" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    assert run("score", write_rows(path, [{"ID ": "x7", **rows[0]}]), "-o", out) == EXIT_OK
    assert rows_in(out)[0]["id"] == "x7"


def test_one_column_of_a_file_has_its_references(tmp_path: Path) -> None:
    references = [{"id": 1, "truth": "A dog."}, {"id": 2, "reference": "A cat."}]
    rows = [{"id": place, "generation": "A dog."} for place in (1, 2)]
    flags = ("--reference", "truth")
    assert joined(tmp_path, rows, references, *flags) == {"1": "A dog.", "2": None}


def test_ids_with_other_blanks_are_other_ids(tmp_path: Path) -> None:
    references = [{"id": "a", "reference": "A dog."}, {"id": "a ", "reference": "A cat."}]
    rows = [{"id": id, "generation": "A dog."} for id in ("a", "a ")]
    assert joined(tmp_path, rows, references) == {"a": "A dog.", "a ": "A cat."}


def test_a_report_names_silent_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {**row, "generation": "" if row["model"] == "b" else row["generation"]}
        for row in two_models({"a": range(8), "b": range(8)})
    ]
    out = tmp_path / "out.jsonl"
    assert run("score", write_rows(tmp_path / "in.jsonl", rows), "-o", out) == EXIT_OK
    capsys.readouterr()
    assert main(["report", str(out), "-o", str(tmp_path / "page.html")]) == EXIT_OK
    said = capsys.readouterr().err
    assert "the mean precision of b leaves out 8 of 8 rows" in said
    assert "the generation is empty" in said
    assert re.search(r"^b .*worse", said, re.MULTILINE)
