"""Pages that show scores and their elements."""
