"""A Chromium for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chromium import Browser, find_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with Browser(program) as opened:
        yield opened
