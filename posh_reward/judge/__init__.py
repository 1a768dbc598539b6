"""Scene graph -> questions -> verdicts: what is asked, and who answers."""
