"""Tables of texts and scores: layouts, rows, statistics."""
