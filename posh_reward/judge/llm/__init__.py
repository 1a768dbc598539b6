"""Judges that are language models: requests -> prompts -> replies -> verdicts."""
