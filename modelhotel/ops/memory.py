"""Keeps what the C library holds back from the system small. Only glibc has these knobs; elsewhere nothing happens."""

import ctypes

#: Options of ``mallopt(3)``.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
#: Bytes from which a block is mapped by itself and given back when it is freed. glibc would raise this to the 19 MiB
#: that one password hash takes, and then keep such blocks in the heap, cut up by what came after.
MAPPED_FROM = 1 << 20
#: Free bytes at the end of the heap that are kept for the next large body.
KEPT = 8 << 20


def settle_allocator() -> bool:
    """One heap instead of one per thread: there are many threads, and the interpreter lock lets one work at a time.

    To be called before threads start. False where the C library knows no ``mallopt``.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all([mallopt(_ARENA_MAX, 1), mallopt(_MMAP_THRESHOLD, MAPPED_FROM), mallopt(_TRIM_THRESHOLD, KEPT)])
