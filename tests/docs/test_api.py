"""The API page has every public name."""

import re
from pathlib import Path

import posh_reward

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_the_page_has_every_public_name() -> None:
    names = set(re.findall(r"^::: posh_reward\.(\w+)$", PAGE.read_text("utf-8"), re.MULTILINE))
    errors = {name for name in posh_reward.__all__ if name.endswith("Error")}
    assert names == {*posh_reward.__all__, "errors"} - errors
