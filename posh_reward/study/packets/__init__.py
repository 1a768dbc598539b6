"""Packets for human comparison: people say, blind, which of several descriptions is better."""
