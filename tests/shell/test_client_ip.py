"""Which address counts as the client's, and when a header may say so."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core.client_ip import client_address, is_https

TRUSTED = tuple(ipaddress.ip_network(text) for text in ("10.0.0.0/8", "2001:db8::/32"))


def headers(**values):
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]


@pytest.mark.parametrize(
    ("peer", "given_headers", "found"),
    [
        ("203.0.113.9", headers(x_forwarded_for="1.2.3.4"), "203.0.113.9"),
        ("203.0.113.9", headers(x_real_ip="1.2.3.4"), "203.0.113.9"),
        ("10.0.0.1", headers(x_forwarded_for="9.9.9.9, 1.2.3.4, 10.0.0.2"), "1.2.3.4"),
        ("10.0.0.1", headers(x_forwarded_for="10.3.3.3, 10.0.0.2"), "10.3.3.3"),
        ("10.0.0.1", headers(x_forwarded_for="unknown, 10.0.0.2", x_real_ip="5.6.7.8"), "5.6.7.8"),
        ("10.0.0.1", headers(x_forwarded_for="unknown, 10.0.0.2"), "10.0.0.1"),
        ("10.0.0.1", headers(x_forwarded_for="unknown", x_real_ip="5.6.7.8"), "5.6.7.8"),
        ("10.0.0.1", headers(x_forwarded_for="unknown, _hidden", x_real_ip="rubbish"), "10.0.0.1"),
        ("10.0.0.1", headers(x_forwarded_for="1.2.3.4, rubbish"), "1.2.3.4"),
        ("10.0.0.1", headers(x_forwarded_for="1.2.3.4:80"), "10.0.0.1"),
        ("10.0.0.1", headers(), "10.0.0.1"),
        ("10.0.0.1", [(b"x-forwarded-for", b"1.1.1.1"), (b"X-Forwarded-For", b"2.2.2.2")], "2.2.2.2"),
        ("2001:db8::1", headers(x_forwarded_for="2001:500::7"), "2001:500::7"),
        ("2001:500::1", headers(x_forwarded_for="1.2.3.4"), "2001:500::1"),
        ("::ffff:10.0.0.1", headers(x_forwarded_for="::ffff:1.2.3.4"), "1.2.3.4"),
        ("::ffff:203.0.113.9", headers(), "203.0.113.9"),
        ("", headers(x_forwarded_for="1.2.3.4"), ""),
        ("testclient", headers(x_forwarded_for="1.2.3.4"), "testclient"),
    ],
)
def test_a_header_counts_only_from_a_trusted_peer(peer, given_headers, found):
    """providers 82, operations 74"""
    assert client_address(peer, given_headers, TRUSTED) == found


def test_without_trusted_proxies_no_header_is_ever_read():
    """providers 82"""
    assert client_address("10.0.0.1", headers(x_forwarded_for="1.2.3.4"), ()) == "10.0.0.1"


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_the_headers_say_the_answer_is_an_address(forwarded, real):
    sent = [(b"x-forwarded-for", forwarded.encode()), (b"x-real-ip", real.encode())]
    ipaddress.ip_address(client_address("10.0.0.1", sent, TRUSTED))


@pytest.mark.parametrize(
    ("peer", "scheme", "proto", "https"),
    [
        ("10.0.0.1", "http", "https", True),
        ("10.0.0.1", "http", "HTTPS, http", True),
        ("10.0.0.1", "http", "http", False),
        ("203.0.113.9", "http", "https", False),
        ("203.0.113.9", "https", "http", True),
        ("rubbish", "http", "https", False),
    ],
)
def test_only_a_trusted_proxy_may_say_that_its_client_speaks_tls(peer, scheme, proto, https):
    assert is_https(peer, scheme, headers(x_forwarded_proto=proto), TRUSTED) is https
