"""What a turn says in its own words: results of calls that did not run, and why it ended. Pure.

Results are told to the model, notes to people. A stored denial is known by its
result, so that word must not change while turns are stored.
"""

from __future__ import annotations

CANCELLED_RESULT = "Cancelled by the user before it finished."
DENIED_RESULT = "The user denied permission for this call."
SKIPPED_RESULT = "Not run: the user denied permission for another call of this reply."
CANCELLED_NOTE = "User canceled request"
REPEATED_NOTE = "Stopped: the same tool calls were repeated without progress."
