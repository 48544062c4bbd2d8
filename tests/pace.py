"""How slow this machine is, here and now: a limit in seconds is stretched by it.

A limit of the wall clock says what must not be waited for; how fast the machine is, is not what is tested.
"""

import functools
import json
import os
import time

#: Seconds of processor that ``_work`` takes on the machine the limits were written on, which did nothing else.
USUAL = 0.0045
#: What is allowed beyond the plain relation: two tests and a browser meet on two processors.
ROOM = 1.5


def _work() -> None:
    rows = [{"number": number, "text": "x" * 20} for number in range(300)]
    for _ in range(20):
        json.loads(json.dumps(rows))


@functools.cache
def _processor() -> float:
    """By how much one processor is slower than the usual one; the best of five, so that it is not the load again."""
    spent = []
    for _ in range(5):
        began = time.thread_time()
        _work()
        spent.append(time.thread_time() - began)
    return max(1.0, min(spent) / USUAL)


def slower() -> float:
    """By how much everything takes longer here and now, at least ROOM: the processor times who else waits for it."""
    return ROOM * _processor() * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
