"""Stand-ins that need no download: parser, lemmatizer, coreference, judge, knowledge of English.

The core (``graph``, ``posh``, ``reward``, ``training``) imports none of it. It is loaded by
name, or where a rule about English words is first applied.
"""
