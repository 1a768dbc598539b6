"""Plots of models: drawn for odd names and few texts, labels apart, the same each time."""

from typing import Any

import pytest

from posh_reward.tables.standings import ScoreTotals

pytest.importorskip("matplotlib")

from posh_reward.pages.model_plots import Plot, model_plots

LONG = (f"a_very_long_{n}_{'name_' * 12}{n}" for n in range(4))
NAMES = ["sft", "$x$ \\frac", "描述 🐶\x1b[31m", *LONG]


def totals(names: list[str], texts: int) -> ScoreTotals:
    made = ScoreTotals()
    for place, name in enumerate(names):
        for text in range(texts):
            score = 0.5 + 0.01 * place + 0.02 * (text % 5)
            made.add({
                "id": str(text), "model": name, "generation": "word " * (20 + place + text),
                "reference": "A dog.", "f1": score, "precision": score + 0.1,
                "recall": score - 0.1, "failure": None,
            })  # fmt: skip
    return made


def texts(plot: Plot) -> list[str]:
    import matplotlib.text

    return [each.get_text() for each in plot.figure.findobj(matplotlib.text.Text)]


def boxes(plot: Plot, kept: Any) -> list[Any]:
    """Boxes of the visible texts that are ``kept``, on paper."""
    import matplotlib.text

    plot.figure.draw_without_rendering()
    found = [each for each in plot.figure.findobj(matplotlib.text.Text) if kept(each.get_text())]
    return [each.get_window_extent() for each in found if each.get_visible()]


@pytest.mark.filterwarnings("ignore:Glyph .* missing")
def test_seven_models_with_odd_and_long_names_are_told_apart() -> None:
    plots = model_plots(totals(NAMES, 4))
    for plot in plots:
        named = boxes(plot, lambda text: "sft" in text or "very" in text or "frac" in text)
        assert len(named) == 6
        assert not any(a.overlaps(b) for n, a in enumerate(named) for b in named[:n])
        inside = plot.figure.bbox
        assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in named)
    for plot in plots[1:]:
        ranks = boxes(plot, str.isdecimal)
        assert len(ranks) >= 7
    said = " ".join(text for plot in plots for text in texts(plot))
    assert said.count("higher is better") == 2
    assert "precision: how much of the description the reference supports" in said


def test_the_best_model_is_on_top() -> None:
    board = model_plots(totals(["low", "high"], 3))[0].figure.axes[0]
    assert [label.get_text() for label in board.get_yticklabels()] == ["high", "low"]
    assert list(board.get_yticks()) == [1, 0]
