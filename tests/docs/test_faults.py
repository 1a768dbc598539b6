"""Every test that the table of faults names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_faults_names_tests_that_exist() -> None:
    table = (ROOT / "research" / "results" / "faults.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", table))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = set(re.findall(r"^def (test_\w+)", "\n".join(sources), re.MULTILINE))
    assert len(named) > 30
    assert sorted(named - there) == []
    assert all((ROOT / path).is_file() for path in re.findall(r"`(tests/[\w/]+\.py)`", table))
