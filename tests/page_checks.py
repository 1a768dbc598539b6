"""What every page has to pass."""

import re


def unfilled(html: str) -> list[str]:
    """The names in braces that a template has left on a page, outside its scripts and styles."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.findall(r"\{[a-z_]+\}", shown)
