"""What the process keeps: the allocator's knobs are taken, and large blocks go back to the system."""

import subprocess
import sys

import pytest

from modelhotel.ops import memory

SCRIPT = """
import ctypes, os, threading
from modelhotel.ops import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
assert memory.settle_allocator()

def hash_like():
    # What a password hash does: a block of 19 MiB, written all over, and something small that outlives it.
    for _ in range(3):
        block = libc.malloc(19 << 20)
        ctypes.memset(block, 1, 19 << 20)
        kept.append(libc.malloc(4096))
        libc.free(block)

kept = []
before = resident()
threads = [threading.Thread(target=hash_like) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print((resident() - before) / 1e6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_blocks_of_password_hashes_do_not_stay_with_the_process():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=20, check=True)
    assert float(done.stdout) < 8


def test_a_c_library_without_the_knobs_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert memory.settle_allocator() is False
