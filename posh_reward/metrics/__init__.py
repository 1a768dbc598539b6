"""Texts (and images) -> scores. Metrics are siblings: none imports another."""
