"""Synthetic paintings with descriptions.

::

    subjects         what can stand in a scene; scene -> what its drawing shows
    generate_scenes  which scenes there are, and which split each belongs to
    drawing          scene -> image
    scene_wording    scene -> description
"""
