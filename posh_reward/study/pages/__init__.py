"""Scores -> what people look at: HTML pages, plots, a terminal."""
