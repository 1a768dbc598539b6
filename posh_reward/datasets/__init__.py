"""Images with references: loaded by name, or drawn."""
