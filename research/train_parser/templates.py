"""Generate museum descriptions with known trees.

Treebanks of news and e-mail have few sentences like *The woman to our left wears a mustard-yellow
shawl*. ``phrases``, ``clauses`` and this module have one function per construction; sentences are
drawn at random. They need not make sense: only the trees matter.
"""

from __future__ import annotations

from research.train_parser import lexicon as lex
from research.train_parser.clauses import Clauses
from research.train_parser.conllu import Word
from research.train_parser.nodes import Node, comma, s_form, words


class Grammar(Clauses):
    """Whole sentences."""

    def inverted(self) -> Node:
        """*Behind the women are three stalls.*; *In the foreground stands a man.*."""
        noun = self.join(self.person if self.chance(0.5) else self.thing, 1)
        if noun.pos == "PRON":
            noun = self.thing(1)
        plural = noun.tag == "NNS"
        if self.chance(0.7):
            verb = Node("are" if plural else "is", "AUX", "VBP" if plural else "VBZ", "ROOT")
        else:
            base = self.one(["stand", "sit", "hang", "lie", "rise", "stretch"])
            verb = Node(
                base if plural else s_form(base), "VERB", "VBP" if plural else "VBZ", "ROOT"
            )
        verb.left = [self.place_phrase()]
        verb.right = [noun.as_("nsubj")]
        return verb

    def existential(self) -> Node:
        """*There are two boats near the shore.*."""
        noun = self.join(self.thing, 1).as_("attr")
        plural = noun.tag == "NNS"
        verb = Node("are" if plural else "is", "VERB", "VBP" if plural else "VBZ", "ROOT",
                    [Node("there", "PRON", "EX", "expl")], [noun])  # fmt: skip
        if self.chance(0.4):
            verb.right.append(self.place_phrase())
        return verb

    def fronted(self) -> Node:
        """*To our right, a man holds a broom.*."""
        verb = self.clause()
        verb.left = [self.place_phrase(), comma(), *verb.left]
        return verb

    def paint(self) -> Node:
        """*The sky is painted with dabs of blue and pink.*; *Strokes of white mark the sea.*."""
        stroke = Node(self.one(lex.STROKES), "NOUN", "NNS", "pobj", self.modifiers())
        color = Node(self.one(lex.COLORS), "NOUN", "NN", "pobj")
        if self.chance(0.6):
            color.left = [Node(self.one(lex.SHADES), "ADJ", "JJ", "amod")]
        if self.chance(0.6):
            other = Node(self.one(lex.COLORS), "NOUN", "NN", "conj")
            color.right = [Node("and", "CCONJ", "CC", "cc"), other]
        stroke.right = [Node("of", "ADP", "IN", "prep", [], [color])]
        if self.chance(0.4):
            word = self.one(["mark", "suggest", "fill", "form", "create", "cover", "indicate"])
            verb = Node(word, "VERB", "VBP", "ROOT", [], [self.thing(1).as_("dobj")])
            return self.subject(verb, stroke)
        noun = self.noun(lex.PLACES, False)
        verb = Node("painted", "VERB", "VBN", "ROOT",
                    [Node("is", "AUX", "VBZ", "auxpass")])  # fmt: skip
        if self.chance(0.4):
            verb.left.append(Node(self.one(lex.ADVERBS), "ADV", "RB", "advmod"))
        verb.right = [Node(self.one(["with", "in"]), "ADP", "IN", "prep", [], [stroke])]
        return self.subject(verb, noun)

    def signature(self) -> Node:
        """*The artist signed and dated the work in the lower left corner.*."""
        work = Node(self.one(["work", "painting", "canvas", "panel"]), "NOUN", "NN", "dobj",
                    [Node("the", "DET", "DT", "det")])  # fmt: skip
        verb = Node("signed", "VERB", "VBD", "ROOT")
        verb.right = [work, self.place_phrase()]
        if self.chance(0.5):
            dated = Node("dated", "VERB", "VBD", "conj")
            dated.right, verb.right = verb.right, []
            verb.right = [Node("and", "CCONJ", "CC", "cc"), dated]
        name = Node(self.one(lex.NAMES), "PROPN", "NNP")
        name.left = [Node(self.one(lex.NAMES), "PROPN", "NNP", "compound")]
        artist = Node("artist", "NOUN", "NN", "dep", [Node("the", "DET", "DT", "det")])
        return self.subject(verb, self.rng.choice([artist, artist, name]))

    def sentence(self) -> list[Word]:
        """Draw a sentence with its tree."""
        make = self.rng.choice(
            [self.clause] * 9
            + [self.fronted] * 5
            + [self.inverted] * 2
            + [self.existential] * 2
            + [self.paint] * 2
            + [self.signature]
        )
        root = make()
        if self.chance(0.12):
            second = self.rng.choice([self.clause, self.fronted])()
            if self.chance(0.5):
                root.right += [comma(), Node("and", "CCONJ", "CC", "cc"), second.as_("conj")]
            else:
                root.right += [comma(";"), second.as_("parataxis")]
        root.right.append(comma("."))
        return words(root)
