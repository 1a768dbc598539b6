"""Laws of texts, over many of them: identity, form, words, order."""
