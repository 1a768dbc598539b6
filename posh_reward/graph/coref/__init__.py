"""Coreference: which phrases of a description mention the same thing."""

from posh_reward.graph.coref.coreferencer import RESOLVERS, Coreferencer, NoCoref, load_coref

__all__ = ["RESOLVERS", "Coreferencer", "NoCoref", "load_coref"]
