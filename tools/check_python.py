"""End with one line if the Python that runs this cannot make the environment.

Old Pythons have to read this file, so it has no annotations and no f-strings.
"""

import sys

try:
    import ensurepip
    import venv

    HAS_VENV = bool(ensurepip and venv)
except ImportError:  # Debian has it in a package of its own
    HAS_VENV = False

OLDEST = (3, 11)  # of the extra `train` in pyproject.toml
VERSION = ".".join(map(str, sys.version_info[:3]))
SHORT = ".".join(map(str, sys.version_info[:2]))
if sys.version_info[:2] < OLDEST:
    sys.exit(
        sys.executable + " is Python " + VERSION + ", but training needs 3.11 or newer: "
        "install one and name it, as in PYTHON=python3.12 make demo"
    )
if not HAS_VENV:
    sys.exit(
        sys.executable + " (Python " + VERSION + ") has no module venv: install it (on Debian and "
        "Ubuntu: apt install python" + SHORT + "-venv), or name another Python, as in "
        "PYTHON=python3.12 make demo"
    )
