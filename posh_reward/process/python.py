"""Commands that start Python without the working folder on its path.

``python -m`` and ``python -c`` import from the working folder first, so a file called ``json.py``
there would run. ``-P`` prevents that from Python 3.11 on; in 3.10 the code given to ``-c`` can.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

PYTHON = sys.executable
"""This interpreter."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Variable that does the same for all descendants, from Python 3.11 on."""

SAFE_FLAGS = ("-P",) if sys.version_info >= (3, 11) else ()
"""Also needed besides ``LEAVE_FOLDER``: Python 3.13 imports ``linecache`` before it runs code."""
LEAVE_FOLDER = "import sys; sys.path[:] = filter(None, sys.path); "
"""Code for ``-c``: an empty entry stands for the working folder."""
RUN_MODULE = "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def python_code(
    code: str, *arguments: str, python: str = PYTHON, flags: Sequence[str] = ()
) -> list[str]:
    """Return the command for a line of code, which may use ``sys``, and its arguments.

    Another ``python`` must be of the same version.
    """
    return [python, *SAFE_FLAGS, *flags, "-c", LEAVE_FOLDER + code, *arguments]


def python_module(name: str, *arguments: str, python: str = PYTHON) -> list[str]:
    """Return the command for ``python -m``."""
    return python_code(RUN_MODULE, name, *arguments, python=python)


def python_script(
    path: object, *arguments: str, python: str = PYTHON, flags: Sequence[str] = ()
) -> list[str]:
    """Return the command for a script, which imports from its own folder first, as it may."""
    return [python, *flags, str(path), *arguments]
