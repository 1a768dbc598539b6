"""Verdicts -> scores: POSH itself."""
