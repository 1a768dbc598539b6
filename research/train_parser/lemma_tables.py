"""The lemmatizer's tables from treebank trees and running text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from posh_reward.graph.parser.lemmas import RULES, TableLemmatizer, lemma
from research.train_parser.conllu import Word

KEEP_FORM = ("PRON", "DET", "PROPN", "NUM", "PUNCT", "SYM", "X")
"""Parts of speech whose lemma is the word itself in ``en_core_web``: *her*, not *she*."""
INFLECTED = tuple(ending for rules in RULES.values() for ending, _ in rules)


def lemma_tables(sentences: Sequence[Sequence[Word]], texts: Iterable[str]) -> TableLemmatizer:
    """Base forms from treebank and text, and the forms that the rules get wrong with them."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    words: set[str] = set()
    for sentence in sentences:
        for word in sentence:
            low = word.form.lower().replace("\u2019", "'")
            if word.upos in KEEP_FORM or word.lemma == "_":
                continue
            counts.setdefault((word.upos, word.tag, low), Counter())[word.lemma.lower()] += 1
            if word.lemma.isalpha():
                words.add(word.lemma.lower())
    seen = Counter(token for text in texts for token in text.split())
    words |= {
        token for token, count in seen.items()
        if count > 1 and token.isalpha() and token.islower() and not token.endswith(INFLECTED)
    }  # fmt: skip
    forms = {}
    for (pos, tag, low), lemmas in counts.items():
        best = lemmas.most_common(1)[0][0]
        if lemma(low, pos, tag, {}, frozenset(words)) != best:
            forms[f"{tag} {low}"] = best
    return TableLemmatizer(forms, frozenset(words))
