"""Kinds of attributes, as the scene graphs of programs have them: color, count, size ..."""

from __future__ import annotations

import re

KINDS = {
    "color": "red blue green yellow white black brown gray grey orange purple pink gold golden "
    "silver beige tan turquoise teal violet crimson scarlet maroon navy ivory cream olive ochre "
    "mustard azure lavender magenta cyan peach amber bronze copper auburn blond blonde colorful "
    "multicolored reddish bluish greenish yellowish whitish blackish brownish grayish greyish",
    "count": "one two three four five six seven eight nine ten eleven twelve several many few "
    "multiple numerous single both dozen",
    "size": "small large big tiny huge tall short long little wide narrow thick thin massive "
    "enormous giant miniature medium",
    "material": "wooden wood metal metallic stone brick concrete glass plastic leather cotton silk "
    "wool velvet lace fur paper marble ceramic clay straw wicker iron steel brass satin linen",
    "shape": "round square oval rectangular circular triangular curved straight flat pointed "
    "spherical conical cylindrical",
}
"""Kind -> words."""
OTHER = "state"
_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words.split()}


def kind_of(attribute: str) -> str:
    """The kind of an attribute: of its last word that has one, "mustard-yellow" is a color."""
    words = re.findall(r"\w+", attribute.casefold())
    known = [_KIND_OF[word] for word in words if word in _KIND_OF]
    if any(word.isdecimal() for word in words):
        known.append("count")
    return known[-1] if known else OTHER
