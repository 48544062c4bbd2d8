"""The admin API against its own description: whatever the description allows, and its neighbours, is never a 5xx."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.house import House

COMMAND = shutil.which("schemathesis", path=str(Path(sys.executable).parent))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_request_that_can_be_made_from_the_description_is_a_server_error(home: House, tmp_path: Path):
    product = home.product
    assert COMMAND
    done = subprocess.run(
        [
            COMMAND,
            "run",
            f"{product.url}/api/openapi.json",
            *("--header", f"Authorization: Bearer {product.token}"),
            *("--checks", "not_a_server_error"),
            *("--phases", "fuzzing"),
            *("--max-examples", "6"),
            *("--request-timeout", "10"),
            "--generation-deterministic",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "not_a_server_error" not in done.stdout
    assert "unexpected error" not in product.output
