"""The messages of docs/troubleshooting.md are those that the code prints."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_message_is_in_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) >= 12
    code = "".join(path.read_text("utf-8") for path in (ROOT / "posh_reward").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)  # adjacent literals are one text
    assert [message for message in messages if message not in joined] == []
