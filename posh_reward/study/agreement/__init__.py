"""How well metrics agree with people, by the paper's procedures (section 5, A.3).

::

    reliability  Krippendorff's alpha       spans  relaxed F1 of marked spans
"""
