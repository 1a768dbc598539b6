"""Text -> spaCy ``Doc`` with ClearNLP labels: the embedded pipeline, or an installed one."""
