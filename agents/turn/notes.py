"""What a turn says in its own words: results of calls that did not run, and why it ended. Pure.

Results are told to the model, notes to people. A stored denial is known by its
result, so that word must not change while turns are stored.
"""

from __future__ import annotations

CANCELLED_RESULT = "Cancelled by the user before it finished."
# Clients draw a result as a warning instead of an error where it begins with these words.
DENIED_RESULT = "User denied permission for this call."
SKIPPED_RESULT = "User denied permission for another call of this reply: this one was not run."
EARLIER_DENIED_RESULTS = ("The user denied permission for this call.",)  # in stored turns
CANCELLED_NOTE = "User canceled request"
REPEATED_NOTE = "Stopped: the same tool calls were repeated without progress."
