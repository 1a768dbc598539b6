"""Synthetic paintings with descriptions.

::

    subjects         subjects of a scene; scene -> objects in its drawing
    generate_scenes  random scenes, their splits and rows
    drawing          scene -> image
    scene_wording    scene -> description
"""
