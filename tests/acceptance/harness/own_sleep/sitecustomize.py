"""For processes under libfaketime, whose `clock_nanosleep` refuses the monotonic clock.

Python calls that function in `time.sleep`, and nowhere else.
"""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep
