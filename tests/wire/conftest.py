import pytest

pytest.register_assert_rewrite("tests.wire.playbook")

from tests.wire.clients import KINDS, both  # noqa: E402
from tests.wire.house import House, house  # noqa: E402
from tests.wire.mixed import Mixed, mixed  # noqa: E402


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory):
    with house(tmp_path_factory.mktemp("house")) as found:
        yield found


@pytest.fixture
def home(shared_house: House) -> House:
    """The module's house as it was when it was built."""
    shared_house.fresh()
    return shared_house


@pytest.fixture(scope="module")
def shared_hotel(tmp_path_factory):
    with mixed(tmp_path_factory.mktemp("mixed")) as found:
        yield found


@pytest.fixture
def hotel(shared_hotel: Mixed) -> Mixed:
    """The module's mixed house as it was when it was built."""
    shared_hotel.fresh()
    return shared_hotel


@pytest.fixture(scope="module")
def guests(shared_house: House):
    with both(f"{shared_house.product.url}/v1", shared_house.key) as found:
        yield found


@pytest.fixture(params=KINDS)
def guest(home: House, guests, request: pytest.FixtureRequest):
    """Each client of OpenAI's SDK, at the module's house."""
    return guests[request.param]


@pytest.fixture(scope="module")
def clients(shared_hotel: Mixed):
    with both(f"{shared_hotel.home.product.url}/v1", shared_hotel.home.key) as found:
        yield found


@pytest.fixture(params=KINDS)
def client(hotel: Mixed, clients, request: pytest.FixtureRequest):
    """Each client of OpenAI's SDK, at the module's mixed house."""
    return clients[request.param]
