"""Pages of a run: what is shown of a batch, and that a page never ends a run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from PIL import Image

from posh_reward import PoSh
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.training.run_pages import CompletionPages, Row, items
from posh_reward.types import Scores

REFERENCE = "A red hat and a <b>blue</b> coat."
LOG = [{"step": step, "reward": 0.5 + step / 10, "posh/precision": 0.7} for step in (1, 2)]


def batch() -> tuple[list[Row], list[Scores]]:
    """Two images with two completions each, the better one second."""
    judge = PoSh(
        FakeJudge(lambda asked: 5.0 if "hat" in f"{asked.identifier} {asked.text}" else 1.0)
    )
    texts = ["a blue coat", "a red hat", "a blue coat", "a red hat"]
    images = [Image.new("RGB", (900, 300), "teal")] * 2 + [None, None]
    prompts = [[{"role": "user", "content": name}] for name in ("one", "one", "two", "two")]
    rows: list[Row] = [
        {"prompt": prompt, "image": image, "reference": REFERENCE}
        for prompt, image in zip(prompts, images, strict=True)
    ]
    return rows, judge.score(texts, [REFERENCE] * len(texts))


def test_the_best_and_the_worst_of_each_image_are_shown() -> None:
    shown = items(*batch())
    assert [item.title for item in shown] == [
        "Image 1, best of 2",
        "Image 1, worst of 2",
        "Image 2, best of 2",
        "Image 2, worst of 2",
    ]
    assert [item.scores.generation for item in shown[:2]] == ["a red hat", "a blue coat"]
    assert [item.image is None for item in shown] == [False, False, True, True]


def test_pages_come_every_few_steps_and_at_the_end(tmp_path: Path) -> None:
    pages = CompletionPages(tmp_path / "pages", every=3)
    for step in range(5):
        pages.note(step, *batch())
    pages.finish(LOG)
    names = sorted(path.name for path in (tmp_path / "pages").iterdir())
    assert names == ["run.html", "step-000000.html", "step-000003.html"]
    text = (tmp_path / "pages" / "run.html").read_text(encoding="utf-8")
    assert "after 4 steps" in text
    assert "data:image/png" in text  # the figures
    assert "data:image/jpeg" in text  # the image
    assert "<b>blue" not in text  # texts are escaped


def test_a_page_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pages").write_text("in the way", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        CompletionPages(tmp_path / "pages", every=1).note(0, *batch())
    assert "step-000000.html was not written" in caplog.text
