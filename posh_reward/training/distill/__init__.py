"""Distillation of a judge: a small model learns its answers."""
