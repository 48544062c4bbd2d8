"""``manage.py`` of a product that keeps few request rows in memory (``python -m tests.endurance.small_memory``)."""

import runpy
import sys

from requestlogs import recorder
from tests.wire.product import ROOT

#: Rows; the product's own 20,000 would take minutes to fill.
MEMORY = 300

if __name__ == "__main__":
    recorder.MEMORY = MEMORY
    sys.argv[0] = str(ROOT / "manage.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
