"""``explain`` in a terminal."""

from pathlib import Path

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE
from posh_reward.datasets.scenes import caption, draw_scene, generate_scenes
from tests.cli.running import GENERATION, REFERENCE, run


def test_one_pair_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", GENERATION, REFERENCE) == EXIT_OK
    said = " ".join(capsys.readouterr().out.split())
    assert "A small [black]1 dog" in said
    assert "A small [brown]1 dog" in said
    assert 'described as "black" in DESCRIPTION 1?' in said
    assert "f1 0." in said
    assert "posh|preset:released|judge:fake" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("name", ["caption", "a caption.txt", "missing.txt"])
def test_a_file_named_without_at_is_not_scored_as_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name != "missing.txt":
        Path(name).write_text("A dog.")
    assert run("explain", name, REFERENCE) == EXIT_UNUSABLE
    assert f"{name!r} is the name of a file: write @{name} to read it" in capsys.readouterr().err


def test_colours_on_request_and_nothing_steers_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("A black\x1b[2J dog\u202e sits.")
    text = f"@{tmp_path / 'a.txt'}"
    assert run("explain", text, REFERENCE, "--color", "always") == EXIT_OK
    said = capsys.readouterr().out
    assert "\x1b[31;1;4mblack" in said
    assert "\x1b[2J" not in said
    assert "\u202e" not in said
    assert "\\x1b" in said


def test_a_witness_looks_at_the_image_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = next(generate_scenes("test", 1, 7))
    draw_scene(scene).save(tmp_path / "drawn.png")
    flags = ("explain", caption(scene), "A bridge.", "--witness", "scenes:train=0:heldout=1:seed=7",
             "--limit", "100")  # fmt: skip
    assert run(*flags) == EXIT_UNUSABLE
    assert "name it with --image" in capsys.readouterr().err
    assert run(*flags, "--image", tmp_path / "drawn.png") == EXIT_OK
    said = " ".join(capsys.readouterr().out.split())
    assert "In the image, not in the reference (reference 1.0, image 5.0)." in said
