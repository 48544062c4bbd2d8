"""One target with inputs made by the coverage of the product: ``python -m tests.fuzz.guided NAME INPUTS SECONDS``.

Ends with 0 where nothing was found; a finding is printed by libFuzzer with the input that shows it.
"""

import sys
import tempfile
from pathlib import Path

LONGEST = 8192
"""Bytes of an input."""
MEMORY = 1024
"""MiB of the process, and seconds of one input, over which libFuzzer calls it a finding."""
SECONDS = 10


def main(name: str, inputs: str, seconds: str) -> int:
    try:
        import atheris
    except ImportError:
        print("atheris is missing: pip install atheris (wheels for Linux and CPython 3.11 to 3.13)", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["proxy", "failover", "providers", "modelhotel.core"]):
        from tests.fuzz.registry import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as corpus:
        for at, seed in enumerate(target.seeds):
            Path(corpus, str(at)).write_bytes(seed)
        limits = (f"-rss_limit_mb={MEMORY}", f"-timeout={SECONDS}", f"-max_len={LONGEST}")
        ends = (
            f"-runs={inputs}",
            f"-max_total_time={int(float(seconds))}",
            f"-artifact_prefix={tempfile.gettempdir()}/",
        )
        print(f"{name}:", flush=True)
        atheris.Setup([sys.argv[0], corpus, *limits, *ends, "-verbosity=0", "-print_final_stats=1"], target.run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
