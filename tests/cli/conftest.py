"""A small table for every test."""

from pathlib import Path

import pytest

from tests.cli.running import pairs, write_rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.jsonl", pairs(5))
