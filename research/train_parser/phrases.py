"""Noun phrases and places of the template grammar."""

from __future__ import annotations

import random
from collections.abc import Callable

from research.train_parser import lexicon as lex
from research.train_parser.nodes import Node, comma


class Phrases:
    """Phrases, drawn with one source of chance."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)

    def one(self, words: list[str]) -> str:
        """A word of a list."""
        return self.rng.choice(words)

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.rng.random() < probability

    def det(self) -> Node:
        """*the*, *a*: the article fits any sound here, since only the tree counts."""
        return Node(self.one(["the", "the", "a", "a", "another", "each", "this"]), "DET", "DT",
                    "det")  # fmt: skip

    def poss(self) -> Node:
        """*her*."""
        return Node(self.one(["his", "her", "its", "their"]), "PRON", "PRP$", "poss")

    def color(self) -> list[Node]:
        """*red*; *pale blue*; *mustard - yellow*; *red - and - white*; *plum - coloured*."""
        kind = self.rng.random()
        main = Node(self.one(lex.COLORS), "ADJ", "JJ", "amod")
        if kind < 0.45:
            return [main]
        if kind < 0.6:
            main.left = [Node(self.one(lex.SHADES), "ADJ", "JJ", "amod")]
            if self.chance(0.3):
                main.left.append(comma("-"))
        elif kind < 0.8:
            main.left = [Node(self.one(lex.OBJECT_COLORS), "NOUN", "NN", "compound"), comma("-")]
        elif kind < 0.88:
            other = Node(self.one(lex.COLORS), "ADJ", "JJ", "conj")
            main.right = [comma("-"), Node("and", "CCONJ", "CC", "cc"), comma("-"), other]
        elif kind < 0.94:
            form = self.one(["coloured", "colored", "toned", "trimmed", "tinted", "rimmed"])
            noun = Node(self.one(lex.OBJECT_COLORS + lex.COLORS), "NOUN", "NN", "compound")
            return [Node(form, "VERB", "VBN", "amod", [noun, comma("-")])]
        else:
            other = Node(self.one(lex.COLORS), "ADJ", "JJ", "conj")
            main.right = [Node("and", "CCONJ", "CC", "cc"), other]
        return [main]

    def modifiers(self) -> list[Node]:
        """Draw up to three adjectives, colours or participles, with or without commas."""
        nodes: list[Node] = []
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 1, 1, 2, 2, 3])):
            kind = self.rng.random()
            if nodes and self.chance(0.4):
                nodes.append(comma())
            if kind < 0.4:
                nodes.append(Node(self.one(lex.ADJECTIVES), "ADJ", "JJ", "amod"))
            elif kind < 0.7:
                nodes += self.color()
            elif kind < 0.88:
                adverb = [Node(self.one(lex.ADVERBS), "ADV", "RB", "advmod")]
                left = adverb if self.chance(0.2) else []
                nodes.append(Node(self.one(lex.PARTICIPLES), "VERB", "VBN", "amod", left))
            else:
                nodes.append(Node(self.one(lex.ACTIVE), "VERB", "VBG", "amod"))
        return nodes

    def noun(self, words: list[str], plural: bool, article: bool = True) -> Node:
        """*the two tall women*; *a market square*."""
        tag = "NNS" if plural else "NN"
        head = Node(self.one(words), "NOUN", tag)
        left: list[Node] = []
        if plural and self.chance(0.35):
            if self.chance(0.4):
                left.append(Node("the", "DET", "DT", "det"))
            left.append(Node(self.one(lex.NUMBERS), "NUM", "CD", "nummod"))
        elif plural and self.chance(0.25):
            word, tag_, pos = self.one(["several", "many", "few"]), "JJ", "ADJ"
            left.append(Node(word, pos, tag_, "amod"))
        elif article and plural and self.chance(0.5):
            left.append(Node(self.one(["the", "some", "these"]), "DET", "DT", "det"))
        elif article and not plural:
            left.append(self.det() if self.chance(0.9) else self.number_one())
        if left and left[-1].form == "the" and self.chance(0.15):
            left.append(Node(self.one(lex.RANKS), "ADJ", "JJ", "amod"))
        left += self.modifiers()
        if self.chance(0.1):
            word = self.one(lex.THINGS + lex.PLACES)
            left.append(Node(word, "NOUN", "NN", "compound"))
        head.left = left
        return head

    def number_one(self) -> Node:
        """*one*."""
        return Node("one", "NUM", "CD", "nummod")

    def person(self, depth: int = 1) -> Node:
        """Draw a person: *the old woman to our left*; *a boy who holds a drum*."""
        plural = self.chance(0.3)
        kind = self.rng.random()
        if kind < 0.12:
            return self.one_of()
        if kind < 0.2:
            return Node(self.one(["she", "he", "they", "it", "we"]), "PRON", "PRP")
        if kind < 0.23:
            the = Node("the", "DET", "DT", "det")
            return Node(self.one(["other", "first", "second", "third"]), "ADJ", "JJ", "dep", [the])
        words = lex.PEOPLE_PLURAL if plural else lex.PEOPLE + lex.ANIMALS
        head = self.noun(words, plural)
        if depth > 0:
            head.right = self.postmodifiers(depth)
        return head

    def one_of(self) -> Node:
        """*one of the women*; *most of the field*."""
        word = self.one(["one", "one", "one", "two", "three"])
        of = self.prep_with("of", self.noun(lex.PEOPLE_PLURAL + lex.THINGS_PLURAL, True))
        if not of.right[0].left:
            of.right[0].left = [Node("the", "DET", "DT", "det")]
        return Node(word, "NUM", "CD", "dep", [], [of])

    def thing(self, depth: int = 1) -> Node:
        """Draw an object: *a barrow of cabbages*; *his left hand*; *the dog 's head*."""
        kind = self.rng.random()
        plural = self.chance(0.35)
        if kind < 0.2:
            head = self.noun(lex.BODY_PLURAL if plural else lex.BODY, plural, article=False)
            side = Node(self.one(["left", "right", "other"]), "ADJ", "JJ", "amod")
            head.left = [
                self.poss(),
                *([side] if self.chance(0.3) else []),
                *[node for node in head.left[:2] if node.dep != "punct"],
            ]
        elif kind < 0.28:
            head = self.noun(lex.BODY_PLURAL if plural else lex.BODY + lex.CLOTHES, plural, False)
            owner = self.noun(lex.PEOPLE + lex.ANIMALS, False).as_("poss")
            owner.right = [Node(self.one(["'s", "\u2019s"]), "PART", "POS", "case")]
            head.left = [owner, *[n for n in head.left if n.dep == "amod"]]
        elif kind < 0.45:
            amount = Node(
                self.one(lex.AMOUNTS), "NOUN", "NN", "dep", [self.det(), *self.modifiers()]
            )
            amount.right = [self.prep_with("of", self.noun(lex.THINGS_PLURAL, True, False))]
            return amount
        elif kind < 0.6:
            head = self.noun(lex.CLOTHES_PLURAL if plural else lex.CLOTHES, plural)
        else:
            head = self.noun(lex.THINGS_PLURAL if plural else lex.THINGS + lex.ANIMALS, plural)
        if depth > 0 and self.chance(0.4):
            head.right = self.postmodifiers(depth)
        return head

    def postmodifiers(self, depth: int) -> list[Node]:
        """Draw a noun's modifiers; implemented by ``Clauses``."""
        raise NotImplementedError

    def join(self, make: Callable[[int], Node], depth: int) -> Node:
        """*a dress and a bonnet*; *a dress, a cap and gloves*."""
        first = make(depth)
        if not self.chance(0.2):
            return first
        last = make(0).as_("conj")
        conjunction = Node("and", "CCONJ", "CC", "cc")
        if self.chance(0.3):
            middle = make(0).as_("conj")
            middle.right += [*([comma()] if self.chance(0.5) else []), conjunction, last]
            first.right += [comma(), middle]
        else:
            first.right += [conjunction, last]
        return first

    def prep_with(self, word: str, noun: Node, dep: str = "prep") -> Node:
        """Make a prepositional phrase."""
        return Node(word, "ADP", "IN", dep, [], [noun.as_("pobj")])

    def place_phrase(self, dep: str = "prep") -> Node:
        """*in the foreground*; *to our left*; *in the lower left corner of the room*."""
        kind = self.rng.random()
        if kind < 0.3:
            side = Node(self.one(["left", "right"]), "NOUN", "NN", "pobj", [self.side_owner()])
            if self.chance(0.15):
                side.right = [self.prep_with("of", self.noun(lex.PEOPLE + lex.THINGS, False))]
            return Node(self.one(["to", "to", "to", "on", "at"]), "ADP", "IN", dep, [], [side])
        if kind < 0.5:
            noun = Node(self.one(lex.REGIONS), "NOUN", "NN", "pobj",
                        [Node("the", "DET", "DT", "det")])  # fmt: skip
            return Node("in", "ADP", "IN", dep, [], [noun])
        if kind < 0.65:
            sides = [Node(word, "ADJ", "JJ", "amod") for word in
                    self.rng.choice([["lower", "left"], ["upper", "right"], ["bottom"], ["left"],
                                     ["right"], ["top"], ["lower"], ["far"]])]  # fmt: skip
            noun = Node(self.one(lex.PARTS), "NOUN", "NN", "pobj",
                        [Node("the", "DET", "DT", "det"), *sides])  # fmt: skip
            noun.right = [self.prep_with("of", self.noun(lex.PLACES + lex.THINGS, False))]
            if self.chance(0.4):
                noun.right = []
            return Node(self.one(["in", "along", "at", "near", "on"]), "ADP", "IN", dep, [], [noun])
        make = self.one(["place", "thing", "person"])
        noun = {"place": lambda: self.noun(lex.PLACES, False), "thing": lambda: self.thing(0),
                "person": lambda: self.person(0)}[make]()  # fmt: skip
        if noun.pos == "PRON":
            noun = Node(self.one(["him", "her", "them", "it", "us"]), "PRON", "PRP")
        phrase = self.prep_with(self.one(lex.PREPOSITIONS), noun, dep)
        if self.chance(0.12):
            adverb = self.one(["just", "directly", "right", "high", "far"])
            phrase.left = [Node(adverb, "ADV", "RB", "advmod")]
        return phrase

    def side_owner(self) -> Node:
        """*our* left; *her* right; *the* left."""
        if self.chance(0.3):
            return Node("the", "DET", "DT", "det")
        return Node(self.one(["our", "our", "our", "her", "his", "their"]), "PRON", "PRP$", "poss")
