"""Generate museum descriptions with known trees.

Treebanks of news and e-mail have few sentences like *The woman to our left wears a mustard-yellow
shawl*. The grammar has one method per construction; sentences are drawn at random. They need not
make sense: only the trees matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from research.train_parser import lexicon as lex
from research.train_parser.clearnlp import punctuation
from research.train_parser.conllu import ROOT, Word

HYPHEN_FREE = ("-", ",", ".", ";", ":", "'s", "\u2019s", ")", "s")


@dataclass
class Node:
    """A word with its dependents before and after it, in order."""

    form: str
    pos: str
    tag: str
    dep: str = "dep"
    left: list[Node] = field(default_factory=list)
    right: list[Node] = field(default_factory=list)

    def as_(self, dep: str) -> Node:
        """Set the node's relation to its head, and return the node."""
        self.dep = dep
        return self

    def linear(self) -> list[Node]:
        """Return the nodes of the subtree in text order."""
        before = [node for child in self.left for node in child.linear()]
        after = [node for child in self.right for node in child.linear()]
        return [*before, self, *after]


def comma(form: str = ",") -> Node:
    """Make a punctuation mark."""
    return Node(form, "PUNCT", form if form in ",." else ":" if form != "-" else "HYPH", "punct")


def words(root: Node) -> list[Word]:
    """Convert a tree to words, with punctuation attached as in the converted treebanks."""
    order = root.linear()
    index = {id(node): i for i, node in enumerate(order)}
    heads = {id(child): index[id(node)] for node in order for child in node.left + node.right}
    tree = [Word(n.form, n.form.lower(), n.pos, n.tag, heads.get(id(n), ROOT), n.dep)
            for n in order]  # fmt: skip
    for word, after in pairwise(tree):
        if word.form == "a" and after.form[0] in "aeiou":
            word.form = "an"
    tree[0].form = tree[0].form[:1].upper() + tree[0].form[1:]
    for before, word in pairwise(tree):
        before.space = not (word.form in HYPHEN_FREE or before.form == "-")
    next(w for w in tree if w.head == ROOT).dep = "ROOT"
    punctuation(tree)
    return tree


def s_form(verb: str) -> str:
    """*carry* -> *carries*."""
    if verb == "have":
        return "has"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def ing(verb: str) -> str:
    """*ride* -> *riding*."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    short = (
        len(verb) < 5 and verb[-1] in "bdgmnpt" and verb[-2] in "aeiou" and verb[-3:-2] not in "aeo"
    )
    return verb + (verb[-1] if short else "") + "ing"


class Grammar:
    """Phrases, clauses and sentences, drawn with one source of chance."""

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

    def postmodifiers(self, depth: int) -> list[Node]:
        """Draw a noun's modifiers: a place, *in a red coat*, *with ...*, a participle, a clause."""
        kind = self.rng.random()
        if kind < 0.3:
            return []
        if kind < 0.45:
            return [self.place_phrase()]
        if kind < 0.58:
            plural = self.chance(0.2)
            words = lex.CLOTHES_PLURAL if plural else lex.CLOTHES
            return [self.prep_with("in", self.noun(words, plural))]
        if kind < 0.75:
            return [self.prep_with("with", self.join(self.with_object, 0))]
        if kind < 0.85:
            return [self.participle(depth - 1)]
        verb = self.predicate(depth - 1, False)
        subject = Node(self.one(["who", "who", "that", "which"]), "PRON", "WP", "nsubj")
        subject.tag = "WDT" if subject.form in ("that", "which") else "WP"
        verb.left.insert(0, subject)
        return [verb.as_("relcl")]

    def with_object(self, depth: int) -> Node:
        """*a round face*; *her hands folded in her lap*; *one arm raised*."""
        if self.chance(0.45):
            return self.thing(0)
        plural = self.chance(0.5)
        owner = self.poss() if plural or self.chance(0.6) else self.number_one()
        head = Node(self.one(lex.BODY_PLURAL if plural else lex.BODY), "NOUN",
                    "NNS" if plural else "NN", "pobj", [owner])  # fmt: skip
        head.right = [self.participle(0)]
        if self.chance(0.3):
            return head
        head.right[0].right = head.right[0].right[:1]
        return head

    def participle(self, depth: int) -> Node:
        """*harnessed to a cart*; *holding a broom*; *dressed in black*."""
        if self.chance(0.5):
            verb = Node(self.one(lex.POST_PARTICIPLES), "VERB", "VBN", "acl")
            kind = self.rng.random()
            if kind < 0.25:
                agent = self.prep_with("by", self.thing(0), "agent")
                verb.right = [agent]
            elif kind < 0.4:
                color = Node(self.one(lex.COLORS), "NOUN", "NN", "pobj")
                verb.right = [Node("in", "ADP", "IN", "prep", [], [color])]
            elif kind < 0.55:
                verb.right = [self.place_phrase()]
            elif kind < 0.92:
                word = self.one(["with", "to", "in", "on", "under", "around", "from", "across"])
                verb.right = [self.prep_with(word, self.thing(depth))]
            return verb
        if self.chance(0.5):
            base = self.one(lex.TRANSITIVE)
            return Node(ing(base), "VERB", "VBG", "acl", [], [self.thing(depth).as_("dobj")])
        verb = Node(ing(self.one(lex.INTRANSITIVE)), "VERB", "VBG", "acl")
        verb.right = [self.verb_place(depth)]
        return verb

    def verb_place(self, depth: int) -> Node:
        """*over a barrow*, below a verb."""
        noun = self.thing(depth)
        return self.prep_with(self.one(lex.VERB_PREPOSITIONS), noun)

    def predicate(self, depth: int, plural: bool) -> Node:
        """Draw a finite verb with its complements: transitive, intransitive, passive or copula."""
        kind = self.rng.random()
        tag = "VBP" if plural else "VBZ"
        if kind < 0.4:
            base = self.one(lex.TRANSITIVE)
            verb = Node(base if plural else s_form(base), "VERB", tag, "ROOT")
            verb.right = [self.join(self.thing, depth).as_("dobj")]
            if self.chance(0.35):
                verb.right.append(self.verb_place(0))
            elif self.chance(0.1):
                verb.right.insert(0, Node(self.one(["up", "out", "down"]), "ADP", "RP", "prt"))
        elif kind < 0.75:
            base = self.one(lex.INTRANSITIVE)
            verb = Node(base if plural else s_form(base), "VERB", tag, "ROOT")
            if self.chance(0.25):
                word = self.one(["out", "straight", "back", "upright", "away", "directly", "side",
                                 "down", "forward"])  # fmt: skip
                verb.right.append(Node(word, "ADV", "RB", "advmod"))
            if base in ("look", "gaze", "stare", "glance", "peer") and self.chance(0.5):
                verb.right.append(self.prep_with("at", Node("us", "PRON", "PRP")))
            verb.right.append(self.verb_place(depth) if self.chance(0.7) else self.place_phrase())
            if self.chance(0.2):
                verb.right.append(self.prep_with("with", self.with_object(0)))
        elif kind < 0.87:
            verb = Node(self.one(lex.POST_PARTICIPLES), "VERB", "VBN", "ROOT")
            verb.left = [Node("are" if plural else "is", "AUX", tag, "auxpass")]
            if self.chance(0.2):
                verb.left.append(Node(self.one(lex.ADVERBS), "ADV", "RB", "advmod"))
            word = self.one(["with", "in", "on", "to", "against", "by"])
            dep = "agent" if word == "by" else "prep"
            verb.right = [self.prep_with(word, self.thing(depth), dep)]
        else:
            verb = Node("are" if plural else "is", "AUX", tag, "ROOT")
            verb.right = [self.complement(depth)]
        return verb

    def complement(self, depth: int) -> Node:
        """Draw a predicate after *is*: *pale blue*, *a small boy*, *in the distance*."""
        kind = self.rng.random()
        if kind < 0.55:
            main = Node(self.one(lex.ADJECTIVES + lex.COLORS), "ADJ", "JJ", "acomp")
            if self.chance(0.3):
                main.left = [Node(self.one(lex.ADVERBS), "ADV", "RB", "advmod")]
            if self.chance(0.25):
                other = Node(self.one(lex.ADJECTIVES), "ADJ", "JJ", "conj")
                main.right = [Node("and", "CCONJ", "CC", "cc"), other]
            return main
        if kind < 0.8:
            return self.thing(0).as_("attr")
        return self.place_phrase()

    def subject(self, verb: Node, noun: Node, passive: bool = False) -> Node:
        """Put a subject before a verb."""
        auxiliary = any(node.dep == "auxpass" for node in verb.left)
        verb.left.insert(0, noun.as_("nsubjpass" if auxiliary else "nsubj"))
        return verb

    def clause(self, depth: int = 1) -> Node:
        """*The woman to our left wears a shawl and leans over a barrow, pulling a sheet.*."""
        noun = self.person(depth) if self.chance(0.7) else self.thing(depth)
        noun = noun if noun.pos == "PRON" else self.maybe_apposed(noun)
        plural = noun.tag == "NNS" or noun.form in ("they", "we", "two", "three")
        verb = self.subject(self.predicate(depth, plural), noun)
        if self.chance(0.25):
            second = self.predicate(0, plural).as_("conj")
            verb.right += [*([comma()] if self.chance(0.2) else []),
                           Node("and", "CCONJ", "CC", "cc"), second]  # fmt: skip
        if self.chance(0.15) and noun.dep == "nsubj":
            verb.right += [comma(), self.participle(0).as_("advcl")]
        elif self.chance(0.1):
            verb.right += [comma(), self.absolute()]
        elif self.chance(0.08):
            inner = self.subject(self.predicate(0, False), self.thing(0)).as_("advcl")
            word = self.one(["as", "while", "so that", "because", "where"])
            marks = [Node(part, "SCONJ", "IN", "mark") for part in word.split()]
            if word == "where":
                marks = [Node("where", "SCONJ", "WRB", "advmod")]
            inner.left = [*marks, *inner.left]
            verb.right.append(inner)
        return verb

    def maybe_apposed(self, noun: Node) -> Node:
        """*the woman, taller and thinner,*; *the dog, its head lowered,*."""
        if not self.chance(0.08):
            return noun
        if self.chance(0.5):
            main = Node(self.one(lex.ADJECTIVES), "ADJ", "JJ", "amod")
            other = Node(self.one(lex.ADJECTIVES), "ADJ", "JJ", "conj")
            main.right = [Node("and", "CCONJ", "CC", "cc"), other]
            noun.right += [comma(), main, comma()]
        else:
            noun.right += [comma(), self.participle(0), comma()]
        return noun

    def absolute(self) -> Node:
        """*her head covered by a shawl*: a clause without *with*."""
        verb = self.participle(0).as_("advcl")
        plural = self.chance(0.4)
        head = Node(self.one(lex.BODY_PLURAL if plural else lex.BODY), "NOUN",
                    "NNS" if plural else "NN", "nsubj", [self.poss()])  # fmt: skip
        verb.left = [head]
        return verb

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
