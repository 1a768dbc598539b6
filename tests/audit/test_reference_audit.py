"""The audit of references, on texts with one planted problem each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from posh_reward.audit.reference_audit import Audit, audit_texts, render_page
from posh_reward.audit.variants import FORMATS
from posh_reward.cli import main
from posh_reward.graph.reader import Reader
from tests.datasets.hub_layout import write_docent

SOUND = [
    "A tall man in a grey coat leans on a wooden fence. Two brown dogs sleep beside his boots.",
    "An old woman pours milk from a white jug. A black cat watches her from the open window.",
    "Three children in red hats ride bicycles along a narrow path between green hedges.",
    "A ship with torn sails drifts near dark rocks. Its crew waves a yellow flag at the shore.",
]
TERSE = "A boat."
LIST = "- a boat\n- three gulls\n- a pier\n- the sea"
THINGS = (
    "There is a boat and a gull and a pier and a rope and a net and a crate and a hut and a dog."
)
GERMAN = "Eine alte Frau giesst Milch aus einem weissen Krug in eine Schale auf dem Tisch."
CONTRARY = "A red dog with a torn ear sleeps on a mat. The dog is green and has a long white tail."
COPY = SOUND[0].replace("Two brown dogs", "Two black dogs")


@pytest.fixture(scope="module")
def found() -> Audit:
    planted = [TERSE, LIST, THINGS, GERMAN, CONTRARY, COPY]
    pair = ["Four chairs stand around a table.", "Six chairs stand around a white table."]
    return audit_texts([*([text] for text in [*SOUND, *planted]), pair], Reader())


def test_each_planted_problem_is_found_and_nothing_else(found: Audit) -> None:
    problems = {each.row: set(each.problems) for each in found.references if each.problems}
    assert not problems.keys() & {0, 1, 2, 3}
    assert problems[4] == {"terse"}
    assert "list" in problems[5]
    assert problems[6] == {"list"}
    assert "foreign" in problems[7]
    assert problems[8] == {"contradiction"}
    assert problems[9] == {"duplicate"}
    assert problems[10] == {"contradiction"}
    whys = {kind: why for each in found.references for kind, why in each.problems.items()}
    assert "row 1" in whys["duplicate"]
    assert found.references[8].problems["contradiction"] == "dog: red, or green"
    assert "four, or six" in found.references[10].problems["contradiction"]


def test_details_are_counted_by_hand() -> None:
    [reference] = audit_texts([["A tall man holds a red book."]]).references
    # man, book; tall, red; holds
    assert reference.counts == (2, 2, 1, 1)
    assert reference.details == 5
    assert reference.rate == pytest.approx(100 * 5 / 7)


def test_what_only_long_references_say_would_be_omitted() -> None:
    short = [[f"A dog sleeps near a bowl in place {n}."] for n in range(16)]
    long = [[f"{SOUND[n % 4]} A blue lamp hangs over scene {n}."] for n in range(16)]
    omissions = {each.what: each for each in audit_texts([*short, *long]).omissions}
    assert omissions["lamp"].long == 1
    assert omissions["lamp"].short == 0
    assert omissions["a colour"].long == 1
    assert "dog" not in omissions


def test_a_kind_of_detail_that_is_missing_beside_one_sort_of_thing_is_named() -> None:
    colours = ("red", "green")
    people = [[f"A {colours[n % 2]} woman in hall {n} holds a key."] for n in range(20)]
    animals = [[f"A {('dog', 'horse')[n % 2]} in hall {n} holds a key."] for n in range(16)]
    found = {each.what: each for each in audit_texts([*people, *animals]).omissions}
    assert str(found["a colour"]).endswith("; 0% with an animal, 100% without")
    assert not found["a material"].thing


def test_the_page_shows_the_worst_first_and_escapes(found: Audit) -> None:
    html = render_page(
        audit_texts([["<b>A cat</b> sits."], *([text] for text in SOUND)]), ["rows.jsonl"]
    )
    assert "<b>A cat" not in html
    shown = render_page(found, [])
    assert shown.index("Eine alte Frau") < shown.index("The dog is green")  # two problems, then one


def test_the_exit_status_is_for_ci(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("reference\n" + "\n".join(f'"{text}"' for text in [*SOUND, TERSE]) + "\n")
    html = tmp_path / "page.html"
    assert main(["audit-references", str(rows), "-o", str(html)]) == 1
    assert "terse: 1" in capsys.readouterr().out
    assert "A boat." in html.read_text()
    assert main(["audit-references", str(rows), "--allow", "0.2"]) == 0


def test_docents_layout_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_docent(tmp_path / "docent")
    main(["audit-references", str(folder)])
    assert "8 references" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["audit-references", str(folder), "--allow"])
    assert main(["audit-references", str(folder), "--reference", "caption"]) == 2
    assert "has no column 'caption', but 'uuid'" in capsys.readouterr().err


MARKED = (
    "bullets", "bold words", "bold leads in a list", "underlined words", "<b> around words",
    "links", "code marks", "HTML list", "paragraphs in <p>", "headings", "numbered lines",
)  # fmt: skip


@pytest.mark.parametrize("write", [
    *(FORMATS[name] for name in MARKED),
    lambda text: text.replace(" ", "<br>", 1),
    lambda text: f"{text}<|im_end|>",
    lambda text: text.replace(" ", "\u200b ", 1),
    lambda text: text.replace(" ", "&nbsp;", 1),
])  # fmt: skip
def test_markup_is_found(write: Callable[[str], str]) -> None:
    for text in SOUND:
        marked, plain = (audit_texts([[each]]).references[0] for each in (write(text), text))
        assert "markup" in marked.problems
        assert "markup" not in plain.problems
