"""Coreference: clusters of the phrases that mention the same entity."""

from posh_reward.graph.coref.coreferencer import RESOLVERS, Coreferencer, NoCoref, load_coref

__all__ = ["RESOLVERS", "Coreferencer", "NoCoref", "load_coref"]
