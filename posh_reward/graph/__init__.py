"""Text -> scene graph: parse, link mentions, read components, build entities and relations."""
