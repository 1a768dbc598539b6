"""Synthetic paintings with descriptions.

::

    subjects   what can stand in a scene
    scene      which scenes there are, and which split each belongs to
    drawing    scene -> image
    things     scene -> what its drawing shows
    wording    scene -> description
"""
