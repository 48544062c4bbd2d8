"""Where the gateway may send requests."""

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core.environment import Environment, read
from modelhotel.core.faults import Refusal
from providers import addresses, egress
from providers.upstream.interface import FaultKind, UpstreamError


def env(**raw: str) -> Environment:
    return read({name.upper(): value for name, value in raw.items()})


def resolves_to(*found: str) -> egress.Resolver:
    def resolver(host: str, port: int) -> list[egress.Address]:
        literal = addresses.parse_ip(host)
        if not found and literal is None:
            raise OSError("no such host")
        return [(socket.AF_INET6 if ":" in ip else socket.AF_INET, (ip, port)) for ip in (found or (host.strip("[]"),))]

    return resolver


PUBLIC = resolves_to("93.184.216.34")


def refusal_of(url: str, environment: Environment, resolver: egress.Resolver = PUBLIC) -> Refusal | None:
    try:
        egress.check_url(url, environment, resolver)
    except Refusal as problem:
        return problem
    return None


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.5/v1",
        "https://169.254.169.254",
        "https://[::ffff:127.0.0.1]",
        "https://100.64.1.1",
        "https://0.0.0.0",
        "https://[fe80::1%25eth0]/v1",
        "https://192.168.1.10:8443/v1",
        "https://[fd00::1]/v1",
    ],
)
def test_private_addresses_are_refused_and_the_text_names_the_variable(url: str):
    """providers 72"""
    problem = refusal_of(url, env(), resolves_to())
    assert problem is not None and (problem.status, problem.code) == (400, "provider_url_rejected")
    assert "resolves to private/reserved address" in problem.text
    assert problem.text.endswith("not allowed as provider URL (add to ALLOWED_PROVIDER_HOSTS to permit)")


@pytest.mark.parametrize(
    "url", ["https://localhost", "https://LOCALHOST.:8443/v1", "https://127.0.0.1", "https://[::1]/"]
)
def test_loopback_names_have_a_text_of_their_own(url: str):
    """providers 72"""
    problem = refusal_of(url, env())
    assert problem is not None and problem.code == "provider_url_rejected"
    assert (
        problem.text == "loopback addresses are not allowed as provider URLs (add to ALLOWED_PROVIDER_HOSTS to permit)"
    )


def test_known_proxies_open_their_network_only():
    """providers 72"""
    known = env(known_proxies="10.0.0.0/8")
    assert refusal_of("https://10.0.0.5/v1", known, resolves_to()) is None
    for url in ("https://169.254.169.254", "https://[::ffff:127.0.0.1]", "https://100.64.1.1", "https://localhost"):
        assert refusal_of(url, known, resolves_to()) is not None


def test_the_list_of_allowed_hosts_is_closed_but_for_the_vendors():
    """providers 72"""
    listed = env(allowed_provider_hosts="localhost,Box")
    assert refusal_of("https://localhost:1234/v1", listed) is None
    assert refusal_of("https://BOX./v1", listed, resolves_to("10.0.0.1")) is None
    assert refusal_of("https://api.openai.com/v1", listed) is None
    problem = refusal_of("https://example.com", listed)
    assert problem is not None
    assert problem.text == 'provider host "example.com" is not in ALLOWED_PROVIDER_HOSTS allowlist'


def test_http_is_refused_with_the_variable_that_allows_it():
    """providers 73"""
    problem = refusal_of("http://example.com/v1", env())
    assert problem is not None and problem.code is None
    assert problem.text == "base_url must use HTTPS (set ALLOW_HTTP_PROVIDERS=true for HTTP)"
    assert refusal_of("http://example.com/v1", env(allow_http_providers="true")) is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "https://user:pw@host",
        "https://@host/",
        "https://host/v1?x=1",
        "https://host/v1?",
        "https://host/v1#f",
        "https://",
        "https:///v1",
        "//host/v1",
        "host/v1",
        "https://ho st/",
        "https://host\n.example/",
        "https://host\\@evil/",
        "https://host:99999/",
        "https://host:x/",
        "https://[::1",
        "",
    ],
)
def test_what_is_no_plain_address_is_refused(url: str):
    """providers 8, providers 73"""
    problem = refusal_of(url, env(allow_http_providers="true"))
    assert problem is not None and problem.code == "provider_url_rejected" and "\n" not in problem.text


def test_vendor_hosts_are_accepted_unresolved_and_look_alikes_are_not():
    never: Any = None  # calling it would fail
    for url in ("https://api.openai.com/v1", "https://eu.z.ai/", "https://Sub.Deepseek.com./v1"):
        assert refusal_of(url, env(), never) is None
    assert refusal_of("https://evilz.ai/", env(), resolves_to("10.1.1.1")) is not None
    assert not addresses.built_in("evilz.ai") and not addresses.built_in("api.openai.com.evil.net")
    assert not addresses.built_in("sub.api.openai.com")


def test_a_name_that_does_not_resolve_is_left_to_the_dial():
    assert refusal_of("https://no-such-host.example/", env(), resolves_to()) is None


def test_one_private_address_among_public_ones_is_enough_to_refuse():
    problem = refusal_of("https://mixed.example/", env(), resolves_to("93.184.216.34", "10.0.0.9"))
    assert problem is not None and 'host "mixed.example" resolves to private/reserved address 10.0.0.9' in problem.text


# ---------------------------------------------------------------- the guard


async def test_a_name_that_turned_private_is_not_dialled():
    """providers 74"""
    guard = egress.Guard(env(), resolves_to("127.0.0.1"))
    with pytest.raises(UpstreamError) as problem:
        await guard.resolve("rebound.example", 443)
    assert problem.value.kind is FaultKind.FORBIDDEN
    assert str(problem.value) == "refused connection to private/reserved IP 127.0.0.1 for host rebound.example"


async def test_only_the_public_one_of_two_addresses_is_dialled():
    """providers 74"""
    guard = egress.Guard(env(), resolves_to("10.0.0.1", "93.184.216.34"))
    assert await guard.resolve("mixed.example", 443) == [(socket.AF_INET, ("93.184.216.34", 443))]


async def test_no_name_no_dial():
    """providers 74"""
    for resolver in (resolves_to(), lambda host, port: []):
        with pytest.raises(UpstreamError) as problem:
            await egress.Guard(env(), resolver).resolve("gone.example", 443)
        assert problem.value.kind is FaultKind.DNS


async def test_literal_addresses_go_through_the_same_check():
    for literal in ("127.0.0.1", "::1", "2130706433", "0x7f.1"):
        with pytest.raises(UpstreamError) as problem:
            await egress.Guard(env()).resolve(literal, 80)
        assert problem.value.kind in (FaultKind.FORBIDDEN, FaultKind.DNS)
    assert (await egress.Guard(env()).resolve("8.8.8.8", 443))[0][1][:2] == ("8.8.8.8", 443)


async def test_allowed_and_exact_vendor_hosts_need_no_address_check():
    private = resolves_to("10.0.0.1")
    guard = egress.Guard(env(allowed_provider_hosts="box"), private)
    assert len(await guard.resolve("BOX.", 80)) == 1
    assert len(await guard.resolve("api.openai.com", 443)) == 1
    with pytest.raises(UpstreamError):
        await guard.resolve("sub.deepseek.com", 443)
    known = egress.Guard(env(known_proxies="10.0.0.0/8"), private)
    assert len(await known.resolve("anything.example", 443)) == 1


# ---------------------------------------------------------------- properties

IPV4 = st.ip_addresses(v=4)
INSIDE = st.sampled_from([n for n in addresses.BLOCKED if n.version == 4]).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(ipaddress.IPv4Address)
)


@given(IPV4)
def test_an_address_is_refused_exactly_when_it_lies_in_a_blocked_range(ip: ipaddress.IPv4Address):
    assert addresses.refused(str(ip)) == any(ip in n for n in addresses.BLOCKED if n.version == 4)


@given(INSIDE)
def test_wrapping_a_blocked_address_in_ipv6_changes_nothing(ip: ipaddress.IPv4Address):
    assert addresses.refused(str(ip))
    assert addresses.refused(f"::ffff:{ip}")
    assert not addresses.refused(f"::ffff:{ip}", [ipaddress.ip_network(f"{ip}/32")])


@given(st.text(max_size=30))
def test_what_is_no_address_is_refused(text: str):
    if addresses.parse_ip(text) is None:
        assert addresses.refused(text)


@given(st.text(max_size=60))
def test_no_text_breaks_the_check(text: str):
    refusal_of("https://" + text, env(), resolves_to("93.184.216.34"))
