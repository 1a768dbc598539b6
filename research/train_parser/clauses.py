"""Clauses of the template grammar: participles, relative and finite clauses."""

from __future__ import annotations

from research.train_parser import lexicon as lex
from research.train_parser.nodes import Node, comma, ing, s_form
from research.train_parser.phrases import Phrases


class Clauses(Phrases):
    """Clauses around the phrases."""

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
