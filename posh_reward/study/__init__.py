"""Scores of many generations -> figures and pages for people."""
