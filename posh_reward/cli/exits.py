"""Exit statuses of the command, and their words in ``--help``."""

from __future__ import annotations

OK = 0
UNUSABLE = 2
UNSCORED = 3
JUDGE = 4
UNWRITABLE = 5
INTERRUPTED = 130
UNREAD = 141

EXITS = f"""\
exit status:
  {OK}    done; every pair has a score, or every file of answers counts
  {UNUSABLE}    flags, configuration or input cannot be used, or a package is missing
  {UNSCORED}    done, but some pairs have no score, files do not count, or a calibration was not
       saved, since it settles nothing; each with its reason
  {JUDGE}    the judge could not work; what was scored is kept, run it again to go on
  {UNWRITABLE}    the output could not be written; what was scored is kept, run it again to go on
  {INTERRUPTED}  interrupted; what was scored is kept, run it again to go on
  {UNREAD}  standard output was closed by its reader
"""
