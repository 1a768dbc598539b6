"""Text -> tokens, in time linear in the length of the text.

spaCy's tokenizer strips punctuation from both ends of a run of characters without white space,
one sign at a time, and searches all that is left each time. A generation of 20,000 exclamation
marks took a minute. So longer runs than any word or address in a description are tokenized in
pieces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

LONGEST_RUN = 100
"""Characters; a longer run without white space is tokenized in pieces."""

PIECE = re.compile(
    rf"(?=\S{{{LONGEST_RUN + 1}}})"
    rf"(?:\S{{{LONGEST_RUN // 2},{LONGEST_RUN - 1}}}[^\w\s]|\S{{{LONGEST_RUN}}})"
)
"""The first piece of a long run: it ends in punctuation if there is some in its second half."""


def tokenized(nlp: Language, text: str) -> Doc:
    """The tokens of a text by the pipeline's own tokenizer, long runs in pieces.

    A text without runs of more than ``LONGEST_RUN`` characters gets exactly spaCy's tokens.
    """
    ends = [match.end() for match in PIECE.finditer(text)]
    return in_pieces(nlp, text, ends) if ends else nlp.make_doc(text)


def in_pieces(nlp: Language, text: str, ends: list[int]) -> Doc:
    """Tokens of a text that is cut at the offsets ``ends``, as if spaces stood there."""
    from spacy.attrs import NORM
    from spacy.tokens import Doc

    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    spaced = nlp.make_doc(" ".join(pieces))
    inserted = {end + spaces for spaces, end in enumerate(ends)}
    words = [token.text for token in spaced]
    spaces = [
        bool(token.whitespace_) and token.idx + len(token) not in inserted for token in spaced
    ]
    doc = Doc(nlp.vocab, words=words, spaces=spaces)
    # The splitter reads norms, which special cases such as "ca|n't" set.
    return doc.from_array([NORM], spaced.to_array([NORM]))
