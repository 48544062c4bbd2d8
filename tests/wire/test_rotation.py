"""The master key of a real installation is changed, and traffic goes on under the new one."""

import secrets
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.upstream.server import FakeProvider
from tests.upstream.spoken import PROMPT
from tests.wire.house import MODEL, House
from tests.wire.product import Product, fresh_postgres, manage


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_keys_that_were_stored_before_serve_after(tmp_path: Path, database: str):
    """providers 22a"""
    with ExitStack() as stack:
        upstreams = [stack.enter_context(FakeProvider(models=[MODEL])) for _ in range(2)]
        old, new, env = "", secrets.token_hex(32), {}
        if database == "postgres":
            old = secrets.token_hex(32)
            env = {"DATABASE_URL": stack.enter_context(fresh_postgres()), "MASTER_KEY": old}
        with Product(tmp_path, env) as product:
            house = House(product, *upstreams)
            key, token = house.key, product.token
            house.close()
        if database == "postgres":
            env["MASTER_KEY"] = new
        else:
            file = tmp_path / "master-key"
            old = file.read_text().strip()
            file.write_text(new)
        with_both = {**env, "OLD_MASTER_KEY": old}

        assert "nothing was changed" in manage(tmp_path, "rotate_master_key", env=env | {"OLD_MASTER_KEY": "x"}).stderr
        looked = manage(tmp_path, "rotate_master_key", "--dry-run", env=with_both)
        assert (looked.returncode, "provider keys: 2 would be re-encrypted" in looked.stdout) == (0, True), looked
        done = manage(tmp_path, "rotate_master_key", env=with_both)
        assert (done.returncode, "provider keys: 2 re-encrypted" in done.stdout) == (0, True), done
        again = manage(tmp_path, "rotate_master_key", env=with_both)
        assert (again.returncode, "nothing to do" in again.stdout) == (0, True), again
        shown = looked.stdout + done.stdout + done.stderr + again.stdout
        assert old not in shown and new not in shown and "sk-alpha" not in shown

        with Product(tmp_path, env, token=token) as product:
            body = {"model": f"Alpha/{MODEL}", "messages": [{"role": "user", "content": PROMPT}]}
            headers = {"Authorization": f"Bearer {key}"}
            assert (
                product.http.post(f"{product.url}/v1/chat/completions", json=body, headers=headers).status_code == 200
            )
            assert upstreams[0].calls[-1].headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
            assert {row["key_state"] for row in product.api("GET", "/api/providers").json()} == {"ok"}


def test_a_database_that_was_never_set_up_is_said_in_one_line(tmp_path: Path):
    done = manage(tmp_path, "rotate_master_key", env={"MASTER_KEY": "n" * 40, "OLD_MASTER_KEY": "o" * 40})
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("CommandError: nothing was changed, the database failed:")
    assert len(done.stderr.strip().splitlines()) == 1
