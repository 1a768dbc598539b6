"""Scores -> HTML pages, plots, text for terminals."""
