"""The demo, and the tiny models that it and the smoke tests train."""
