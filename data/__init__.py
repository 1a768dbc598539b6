"""Where pictures and references come from: drawn here (``scenes``) or DOCENT (``docent``)."""
