"""Markup in texts: Markdown, HTML, special tokens of chat templates, invisible characters."""

from __future__ import annotations

import re

TAG = re.compile(
    r"(?:<\|[^|<>\n]{1,40}\|>|<start_of_turn>)(?:(?:assistant|model|system|user)\b)?"
    # special tokens of chat templates, with the role that follows
    r"|</?[A-Za-z!][^<>\n]{0,200}>"  # HTML, and tokens such as <eos> and </s>
    r"|<<?/?SYS>>?|\[/?(?:INST|SYS)\]"
)
LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
WEB_ADDRESS = re.compile(r"https?://[^\s<>)\]]{1,500}")
TABLE_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
HORIZONTAL_RULE = re.compile(r"^[ \t]*[-=_*:|][-=_*:| \t]{2,200}$", re.MULTILINE)
BULLET = re.compile(
    r"^[ \t]{0,20}(?:(?:[-+>\u2013\u2014\u2022\u2023\u25a0-\u25ff\u203a]|#{1,6}|\(?\d{1,2}[.)])"
    r"[ \t]+)+",
    re.MULTILINE,
)
INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|code|del|em|font|i|ins|mark|q|s|small|span|strong|sub|sup|tt|u|var)"
    r"(?:\s[^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
"""Tags within a line, which separate no words."""
EMPHASIS = re.compile(r"[*_`~]+")

HTML_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});")
EMPHASIS_OPENING = re.compile(r"\*\*|__|~~|```|(?<![\w*])\*(?=\w)|`(?=\w)")
"""Marks of emphasis that stand before what they mark; a single star or dash may be the author's."""
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
MARKUP_PATTERNS = (
    TAG,
    LINK,
    WEB_ADDRESS,
    HTML_ENTITY,
    EMPHASIS_OPENING,
    INVISIBLE,
    BULLET,
    HORIZONTAL_RULE,
)


def find_markup(text: str) -> str | None:
    """Find the first piece of markup, such as ``<br>``; None in a plain text."""
    found = [match for sign in MARKUP_PATTERNS if (match := sign.search(text))]
    return min(found, key=re.Match.start)[0].strip() if found else None
