"""``posh-reward harmonic score`` and ``rubric score`` as people run them, kills included."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.models import model as model_names
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.types import Failure, Verdict
from tests.cli.running import Row, rows_in, write_rows

CRITERIA = ["correctness", "completeness", "clarity", "fluency", "conciseness"]
HERE = "tests.cli.test_others"


def written(prompt: Prompt) -> str:
    """Points for the shipped rubric; nothing that can be used for a text that says so."""
    if "mumble" in prompt.suffix:
        return "I would rather not."
    given = {"M1": 2, "M2": 3, "M3": len(prompt.text) % 6, "M4": 1, "M5": 0}
    return json.dumps({m: {"score": n, "feedback": f"For {m}."} for m, n in given.items()})


class Seeing(FakeModel):
    """Goes by the prompt's length; remembers what it was asked, and can be told how it ends."""

    asked: ClassVar[list[Prompt]] = []
    life: ClassVar[int] = 10_000
    """Prompts until it is interrupted."""
    gone: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(lambda prompt: 1 + len(prompt.text) % 7 / 2, written, sees=True)

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        if len(self.asked) + len(prompts) > self.life:
            raise KeyboardInterrupt
        self.asked.extend(prompts)
        if self.gone:
            return [Verdict(None, Failure("engine", "it does not answer")) for _ in prompts]
        return super().choose(prompts, labels)


@pytest.fixture(autouse=True)
def seeing(monkeypatch: pytest.MonkeyPatch) -> type[Seeing]:
    monkeypatch.setitem(model_names.MODELS, "fake-model", f"{HERE}:Seeing")
    monkeypatch.setattr(Seeing, "asked", [])
    return Seeing


def texts(folder: Path, count: int) -> Path:
    """A table of texts about one image, next to it."""
    Image.new("RGB", (16, 16), "red").save(folder / "red.png")
    rows: list[Row] = [
        {"id": f"t{i}", "image": "red.png", "model": "ab"[i % 2], "generation": f"Red, {i} times."}
        for i in range(count)
    ]
    return write_rows(folder / "in.jsonl", rows)


def harmonic(source: Path, *flags: object) -> int:
    named = ["--judge", "fake-model", "--id", "id"]
    return main(["harmonic", "score", str(source), *named, *map(str, flags)])


def test_each_text_becomes_a_row_with_its_criteria(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert harmonic(texts(tmp_path, 3), "-o", out) == EXIT_OK
    row = rows_in(out)[0]
    assert list(row)[:5] == ["id", "model", "image", "generation", "overall"]
    assert [each["criterion"] for each in row["criteria"]] == CRITERIA
    assert [each["mean"] for each in row["criteria"]] == [row[name] for name in CRITERIA]
    weighed = sum(each["mean"] * each["weight"] for each in row["criteria"])
    assert weighed == pytest.approx(row["overall"])
    assert row["image"] == "red.png"
    said = capsys.readouterr().err
    assert "1 to 5, higher is better" in said
    assert "overall [95 %]" in said, "two models: a leaderboard"
    assert "harmonic|model:fake-model-1|gamma:0.75|" in said


def test_images_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """Rows name them without an ending, as the ids of a dataset are."""
    source = texts(tmp_path, 2)
    (tmp_path / "images").mkdir()
    (tmp_path / "red.png").rename(tmp_path / "images" / "red.png")
    write_rows(source, [{**row, "image": "red"} for row in rows_in(source)])
    assert harmonic(source, "-o", tmp_path / "lost.jsonl") == EXIT_INCOMPLETE
    out = tmp_path / "out.jsonl"
    assert harmonic(source, "-o", out, "--images", tmp_path / "images") == EXIT_OK
    assert [row["image"] for row in rows_in(out)] == ["red", "red"]


def test_flags_reach_the_metric(tmp_path: Path) -> None:
    rows = [{"answer": "Red.", "asked": "Which colour?", "picture": "red.png"}]
    texts(tmp_path, 0)
    source, out = write_rows(tmp_path / "vqa.jsonl", rows), tmp_path / "out.jsonl"
    flags = ["--generation", "answer", "--question", "asked", "--image", "picture"]
    judged = ["--judge", "fake-model", "--task", "vqa", "--gamma", "0.5"]
    chosen = ["--criteria", "correctness,completeness"]
    command = ["harmonic", "score", str(source), "-o", str(out)]
    assert main([*command, *flags, *judged, *chosen]) == EXIT_OK
    (row,) = rows_in(out)
    texts_of_row = (row["generation"], row["question"], row["image"])
    assert texts_of_row == ("Red.", "Which colour?", "red.png")
    assert "gamma:0.5|criteria:correctness,completeness|task:vqa" in row["signature"]
    assert "clarity" not in row
    assert all("Which colour?" in prompt.text for prompt in Seeing.asked)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--image", "photo"], "no column 'photo'"),
        (["--question", "asked"], "task captioning has no questions"),
        (["--gamma", "2"], "use a number from 0 to 1"),
        (["--criteria", "beauty"], "beauty"),
        (["--task", "vqa"], "no column 'question'"),
    ],
)
def test_wrong_flags_name_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], why: str
) -> None:
    assert harmonic(texts(tmp_path, 1), "-o", tmp_path / "out.jsonl", *flags) == EXIT_UNUSABLE
    assert why in capsys.readouterr().err


def rubric(source: Path, *flags: object) -> int:
    named = ["--judge", "fake-model", "--id", "id"]
    return main(["rubric", "score", str(source), *named, *map(str, flags)])


def answers(folder: Path, *texts: str | None) -> Path:
    rows: list[Row] = [
        {"id": f"a{i}", "generation": text, "reference": "A stork.", "asked": f"Which? {i}"}
        for i, text in enumerate(texts)
    ]
    return write_rows(folder / "in.jsonl", rows)


def test_points_come_with_reasons_and_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert rubric(answers(tmp_path, "A crane.", None, "mumble"), "-o", out) == EXIT_INCOMPLETE
    judged, missing, unread = rows_in(out)
    assert judged["total"] == sum(judged[f"M{n}"] for n in range(1, 6))
    assert judged["share"] == pytest.approx(judged["total"] / 15)
    third = judged["metric_points"][2]
    assert (third["metric"], third["points"], third["feedback"]) == ("M3", judged["M3"], "For M3.")
    assert (third["lowest"], third["highest"]) == (0, 5)
    assert (missing["total"], missing["failure"]["detail"]) == (None, "the text is missing")
    assert unread["failure"]["kind"] == "reply"
    assert unread["metric_points"] == []
    said = capsys.readouterr().err
    assert said.startswith("rubric animals, 0 to 15 points: M1 Correct Identification of Class, M2")
    assert "scored 1 of 3 texts" in said
    assert "higher is better: total 0 to 15, M1 0 to 2" in " ".join(said.split())


def test_a_table_with_questions_is_not_gone_on_with_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = answers(tmp_path, "A crane.", "A stork."), tmp_path / "out.parquet"
    pytest.importorskip("pyarrow")
    journal = tmp_path / "out.parquet.journal.jsonl"
    assert rubric(source, "-o", journal, "--question", "asked") == EXIT_OK
    assert [row["question"] for row in rows_in(journal)] == ["Which? 0", "Which? 1"]
    assert rubric(source, "-o", out) == EXIT_UNUSABLE
    assert "must have changed" in capsys.readouterr().err
    assert rubric(source, "-o", out, "--question", "asked") == EXIT_OK
    assert not journal.exists()


ROW = {"answer": "The dress is red.", "question": "What color is the dress?",
       "caption": "A woman in a red dress."}  # fmt: skip


def test_pairs_are_verified_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "def verify(sg):\n    return sg.get_attrs('dress').get('color')\n"
    pair = {**ROW, "program": program, "mine": [["dress"], ["dress", "blue"]]}
    source = write_rows(tmp_path / "in.jsonl", [pair])
    arguments = ["prove", "verify", str(source), "-o", str(tmp_path / "out.jsonl")]
    assert main(arguments) == EXIT_OK
    assert "1 pairs, 1 verified\nprove-programs|tuples:graph|" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--caption-graph", "mine"]) == EXIT_OK
    assert "1 pairs, 0 verified\n  mismatch: 1" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--caption-graph", "his"]) == EXIT_UNUSABLE
    assert "name the right one with --caption-graph" in capsys.readouterr().err


def test_a_caption_without_pairs_is_told_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"caption": ROW["caption"]}, {"caption": None}])
    flags = ["-o", str(tmp_path / "pairs.jsonl"), "--writer", "fake-model"]
    assert main(["prove", "make", str(source), *flags]) == EXIT_INCOMPLETE
    assert "no pairs for 1 (id 2): the caption is missing" in capsys.readouterr().err
