"""The start sequence (settings.md 8): what it makes, what it prints once, what it refuses."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import OperationalError

from modelhotel import master
from modelhotel.accounts import admin_token
from modelhotel.core.clock import ManualClock
from modelhotel.core.environment import BadEnvironment, Environment, read
from modelhotel.models import AdminToken, Lease, Setting, User
from modelhotel.ops import banner, credentials, database, nodes, startup
from modelhotel.ops.faults import StartRefused
from modelhotel.ops.nodes import Membership
from providers.models import Provider

POSTGRES_ENV = {"DATABASE_URL": "postgresql://mh:pa%40ss@db.example:5432/mh?sslmode=require"}
KEY = "k" * 40


# -- step 1: what is refused before anything is touched


@pytest.mark.parametrize(
    ("raw", "workers", "text"),
    [
        (POSTGRES_ENV, 1, "MASTER_KEY is required"),
        ({}, 2, startup.SEVERAL),
        ({**POSTGRES_ENV, "MASTER_KEY": KEY}, 2, startup.SEVERAL),
        ({"REDIS_URL": "redis://x"}, 2, startup.SEVERAL),
        ({"FAILOVER_MAX_ATTEMPTS": "many"}, 1, "FAILOVER_MAX_ATTEMPTS: failover_max_attempts must be a number"),
    ],
)
def test_a_start_without_what_it_needs_is_refused_naming_the_variable(raw: dict[str, str], workers: int, text: str):
    """settings 33, settings 33c, operations 86a."""
    with pytest.raises(StartRefused) as refused:
        startup.check(read(raw), workers)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("raw", "workers"),
    [({}, 1), ({**POSTGRES_ENV, "MASTER_KEY": KEY}, 1), ({**POSTGRES_ENV, "MASTER_KEY": KEY, "REDIS_URL": "r"}, 4)],
)
def test_a_start_with_what_it_needs_goes_on(raw: dict[str, str], workers: int):
    startup.check(read(raw), workers)


# -- step 2: the banner


def test_the_banner_names_every_variable_and_no_secret():
    raw = {
        **POSTGRES_ENV,
        "MASTER_KEY": "master-s3cret",
        "ADMIN_TOKEN": "token-s3cret",
        "ADMIN_PASSWORD": "word-s3cret",
        "METRICS_TOKEN": "metrics-s3cret",
        "REDIS_URL": "redis://:redis-s3cret@cache:6380/2",
        "LOG_FORMAT": "json",
    }
    text = banner.text(read(raw))
    assert "s3cret" not in text
    assert "pa%40ss" not in text
    assert "pa@ss" not in text
    for line in (
        "  DATABASE_URL            postgresql://mh:********@db.example:5432/mh?********",
        "  REDIS_URL               redis://:********@cache:6380/2",
        "  MASTER_KEY              ********",
        "  LOG_FORMAT              json",
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://user@h", "redis://user@h"),
        ("rediss://u:p@[::1]:1/0", "rediss://u:********@[::1]:1/0"),
        ("postgresql://h/db?password=x", "postgresql://h/db?********"),
        ("http://[broken:p4ss", "********"),
        ("redis://:p4ss@h:port", "********"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str):
    assert banner.without_password(url) == shown


def test_what_is_shown_once_stands_in_a_frame():
    text = banner.credentials("ab" * 16, "admin", "pw")
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "ADMIN TOKEN (save now" in lines[1]
    assert text.count("ab" * 16) == 1
    assert "user admin, password pw" in text
    assert banner.credentials("", "admin", "") == ""


# -- step 4: the master key


def _env(data_dir: Path, **raw: str) -> Environment:
    return read({"DATA_DIR": str(data_dir), **raw})


def test_a_created_key_is_random_private_and_read_back(tmp_path: Path):
    env = _env(tmp_path)
    assert master.known(env) == ""
    key = master.create(env)
    assert (len(key), master.known(env)) == (64, key)
    assert stat.S_IMODE(os.stat(master.path(env)).st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["master-key"]
    assert master.create(_env(tmp_path)) != key


def test_the_variable_wins_over_the_file_and_postgres_reads_no_file(tmp_path: Path):
    key = master.create(_env(tmp_path))
    assert master.known(_env(tmp_path, MASTER_KEY="from-env")) == "from-env"
    assert master.known(_env(tmp_path, **POSTGRES_ENV)) == ""
    assert master.known(_env(tmp_path)) == key


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfe"])
def test_a_damaged_key_file_is_named_instead_of_replaced(tmp_path: Path, content: bytes):
    (tmp_path / "master-key").write_bytes(content)
    with pytest.raises(BadEnvironment, match=f"^MASTER_KEY: {tmp_path}/master-key "):
        master.known(_env(tmp_path))
    assert (tmp_path / "master-key").read_bytes() == content


def test_the_secret_key_is_stable_per_master_key_and_unlike_it():
    assert master.secret_key(KEY) == master.secret_key(KEY)
    assert master.secret_key(KEY) != master.secret_key(KEY + "x")
    assert KEY not in master.secret_key(KEY)
    assert master.secret_key("") != master.secret_key("")


@pytest.mark.django_db
@pytest.mark.database
class TestMasterKeyAtStart:
    @pytest.fixture(autouse=True)
    def _put_back(self, settings: object):
        """The start sets SECRET_KEY and the key of the process."""
        from modelhotel.core import crypto

        before = crypto._master
        settings.SECRET_KEY = "test"  # type: ignore[attr-defined]
        yield
        assert before is not None
        crypto.set_master_key(before)

    def test_it_is_announced_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        caplog.set_level("INFO", "start")
        for _ in range(2):
            startup.settle_master_key(_env(tmp_path))
        assert [record.getMessage() for record in caplog.records] == ["start: master key created, keep a copy of it"]

    def test_it_is_never_created_over_values_sealed_under_another(self, tmp_path: Path):
        """settings 33b."""
        Provider.objects.create(name="A", base_url="https://a.example", provider_type="custom", encrypted_key=b"x")
        with pytest.raises(StartRefused, match=f"{tmp_path}/master-key is missing"):
            startup.settle_master_key(_env(tmp_path))
        assert not list(tmp_path.iterdir())
        startup.settle_master_key(_env(tmp_path, MASTER_KEY=KEY))

    def test_nor_over_a_secret_setting(self, tmp_path: Path):
        """part of settings 33b."""
        Setting.objects.create(key="oidc_client_secret", value="enc:v1:eA==:eA==:eA==")
        with pytest.raises(StartRefused, match=f"{tmp_path}/master-key is missing"):
            startup.settle_master_key(_env(tmp_path))
        assert not list(tmp_path.iterdir())

    def test_a_keyless_provider_stands_in_no_one_s_way(self, tmp_path: Path):
        Provider.objects.create(name="A", base_url="https://a.example", provider_type="custom")
        startup.settle_master_key(_env(tmp_path))
        assert (tmp_path / "master-key").exists()

    @pytest.mark.parametrize("key", ["8letters", "tenletters"])
    def test_a_short_key_is_a_warning(self, key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        """settings 34, providers 22."""
        startup.settle_master_key(_env(tmp_path, MASTER_KEY=key))
        assert [record.getMessage() for record in caplog.records] == ["start: MASTER_KEY is shorter than 32 characters"]
        assert key not in caplog.text


# -- step 5: token and account


@pytest.mark.django_db
@pytest.mark.database
class TestCredentials:
    def _start(self, tmp_path: Path, **raw: str) -> str:
        said: list[str] = []
        startup.settle_credentials(_env(tmp_path, **raw), startup.Console(said.append))
        return "\n".join(said)

    def test_a_first_start_prints_token_and_password_once(self, tmp_path: Path):
        """settings 39."""
        text = self._start(tmp_path)
        token = text.partition("Admin token:  ")[2][:32]
        password = text.partition("password ")[2].split()[0]
        assert admin_token.matches(token)
        assert AdminToken.objects.get().token_hash == admin_token.hash_of(token)
        account = User.objects.get()
        assert (account.username, account.is_superuser) == ("admin", True)
        assert account.check_password(password)
        assert self._start(tmp_path) == ""
        assert admin_token.matches(token)

    def test_what_the_environment_fixes_is_stored_and_not_printed(self, tmp_path: Path):
        assert self._start(tmp_path, ADMIN_TOKEN="fixed-token", ADMIN_PASSWORD="fixed-word") == ""
        assert admin_token.matches("fixed-token")
        assert User.objects.get().check_password("fixed-word")

    def test_another_token_replaces_the_stored_one_and_stays_when_the_variable_goes(self, tmp_path: Path):
        """settings 38, settings 39, providers 86."""
        self._start(tmp_path, ADMIN_TOKEN="one", ADMIN_PASSWORD="pw")
        assert self._start(tmp_path, ADMIN_TOKEN="two") == ""
        assert (admin_token.matches("one"), admin_token.matches("two")) == (False, True)
        assert self._start(tmp_path) == ""
        assert admin_token.matches("two")

    def test_the_password_is_for_the_first_account_only(self, tmp_path: Path):
        User.objects.create_user("someone", password="x")
        assert "password" not in self._start(tmp_path, ADMIN_PASSWORD="later")
        assert [user.username for user in User.objects.all()] == ["someone"]


def test_a_token_that_the_variable_fixes_can_not_be_reset(settings, capsys: pytest.CaptureFixture[str]):
    from django.core.management import CommandError, call_command

    settings.MH = replace(settings.MH, admin_token="fixed")
    with pytest.raises(CommandError, match="ADMIN_TOKEN fixes the admin token"):
        call_command("reset_admin_token")


@pytest.mark.django_db
@pytest.mark.database
def test_a_reset_prints_a_token_that_works_and_ends_the_old_one(capsys: pytest.CaptureFixture[str]):
    from django.core.management import call_command

    old = credentials.new_token()
    call_command("reset_admin_token")
    new = capsys.readouterr().out.partition("Admin token:  ")[2][:32]
    assert (admin_token.matches(old), admin_token.matches(new)) == (False, True)


# -- step 3: the database, and who else is on it


class Time(ManualClock):
    """A clock that sleeping moves; *then* runs after each nap."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []
        self.then = lambda: None

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.advance(seconds)
        self.then()


def test_a_database_that_comes_late_is_waited_for():
    time, left = Time(), [3]

    def connect() -> None:
        if left[0]:
            left[0] -= 1
            raise OperationalError("connection refused\nis it running?")

    database.wait(connect, time, time.sleep)
    assert time.naps == [0.25, 0.5, 1.0]


def test_a_database_that_never_comes_ends_the_start_within_a_minute():
    time = Time()

    def connect() -> None:
        raise OperationalError("connection refused\nis it running?")

    with pytest.raises(StartRefused, match=r"^DATABASE_URL: no connection within 60 s: connection refused$"):
        database.wait(connect, time, time.sleep)
    assert 50 < sum(time.naps) <= 60


def test_one_data_directory_has_one_node(tmp_path: Path):
    """settings 33c."""
    time = Time()
    first, second = (Membership(_env(tmp_path), time, time.sleep) for _ in range(2))
    first.join()
    with pytest.raises(StartRefused) as refused:
        second.join()
    assert str(refused.value) == nodes.REFUSED
    first.leave()
    second.join()
    second.leave()
    assert time.naps == [], "a lock needs no waiting"


@pytest.mark.django_db
@pytest.mark.database
class TestNodesOnOneServer:
    def member(self, time: Time, **raw: str) -> Membership:
        return Membership(read({**POSTGRES_ENV, **raw}), time, time.sleep)

    def test_a_second_node_without_redis_is_refused_as_soon_as_the_first_one_stirs(self):
        """settings 33c, operations 86a."""
        time = Time()
        first = self.member(time)
        first.join()
        time.then = first.renew
        with pytest.raises(StartRefused) as refused:
            self.member(time).join()
        assert str(refused.value) == nodes.REFUSED
        assert sum(time.naps) < 1

    def test_a_restart_after_a_crash_waits_no_longer_than_the_lease(self):
        time = Time()
        self.member(time).join()  # and is killed
        self.member(time).join()
        assert sum(time.naps) <= nodes.TTL + 0.3
        time.naps.clear()
        time.advance(3 * nodes.TTL)
        self.member(time).join()
        assert time.naps == []

    def test_a_restart_after_a_clean_stop_waits_for_nothing(self):
        time = Time()
        first = self.member(time)
        first.join()
        first.leave()
        self.member(time).join()
        assert time.naps == []

    def test_nodes_that_share_redis_live_together(self):
        time = Time()
        a, b = (self.member(time, REDIS_URL="redis://x", NODE_NAME=name) for name in "ab")
        a.join()
        time.then = a.renew
        b.join()
        assert sorted(Lease.objects.values_list("name", flat=True)) == ["node:a", "node:b"]
        b.leave()
        assert list(Lease.objects.values_list("name", flat=True)) == ["node:a"]

    def test_a_name_that_is_taken_is_refused(self):
        time = Time()
        a, again = (self.member(time, REDIS_URL="redis://x", NODE_NAME="a") for _ in range(2))
        a.join()
        time.then = a.renew
        with pytest.raises(StartRefused, match=r"^NODE_NAME: a node named a is running"):
            again.join()

    @pytest.mark.parametrize("second", [{}, {"REDIS_URL": "redis://x"}])
    def test_a_node_alone_and_a_node_with_redis_do_not_mix(self, second: dict[str, str]):
        time = Time()
        first = self.member(time, **({} if second else {"REDIS_URL": "redis://x"}))
        first.join()
        time.then = first.renew
        with pytest.raises(StartRefused, match="another node is running"):
            self.member(time, **second).join()

    def test_a_node_whose_place_was_taken_says_so_once(self, caplog: pytest.LogCaptureFixture):
        time = Time()
        first, second = self.member(time), self.member(time)
        first.join()
        time.advance(3 * nodes.TTL)
        second.join()
        for _ in range(3):
            first.renew()
        assert len(caplog.records) == 1
        assert Lease.objects.get().holder == second.holder


@pytest.mark.django_db
def test_a_database_with_every_migration_is_left_alone():
    assert database.migrate() is False
