"""The example of docs/prove.md prints what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "prove.md"
EXAMPLE = re.compile(r"(?ms)^```python\n((?:(?!^```).)*?)^```\n\n```text\n(.*?)^```$")
EXAMPLES = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=["scoring"])
def test_the_page_shows_what_its_code_prints(
    code: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == printed
