"""Which IP addresses are never dialled for a provider, and which hosts need no such check. Pure."""

import ipaddress
from collections.abc import Iterable

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BLOCKED: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # unspecified
        "::/128",
        "127.0.0.0/8",  # loopback
        "::1/128",
        "10.0.0.0/8",  # private
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
        "169.254.0.0/16",  # link-local, the metadata service of clouds
        "fe80::/10",
        "224.0.0.0/24",  # link-local multicast
        "ff02::/16",
        "100.64.0.0/10",  # carrier-grade NAT
    )
)

BUILT_IN_HOSTS = frozenset(
    {
        "api.openai.com",
        "nano-gpt.com",
        "api.nano-gpt.com",
        "api.z.ai",
        "api.kimi.com",
        "kimi.com",
        "api.minimax.io",
        "minimax.io",
        "api.deepseek.com",
        "api.anthropic.com",
        "ollama.com",
        "opencode.ai",
        "api.x.ai",
        "generativelanguage.googleapis.com",
        "aiplatform.googleapis.com",
        "api.cohere.com",
        "api.cohere.ai",
        "openrouter.ai",
        "api.neuralwatt.com",
        "neuralwatt.com",
    }
)
BUILT_IN_SUFFIXES = (
    ".nano-gpt.com",
    ".z.ai",
    ".kimi.com",
    ".minimax.io",
    ".deepseek.com",
    ".anthropic.com",
    ".ollama.com",
    ".opencode.ai",
    ".x.ai",
    ".cohere.com",
    ".cohere.ai",
    ".openrouter.ai",
    ".neuralwatt.com",
)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def plain_host(host: str) -> str:
    """Lower case, without the trailing dot and the brackets of an IPv6 literal."""
    return host.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")


def built_in(host: str) -> bool:
    """A vendor's host: accepted when a provider is saved. *host* as ``plain_host`` gives it."""
    return host in BUILT_IN_HOSTS or host.endswith(BUILT_IN_SUFFIXES)


def parse_ip(text: str) -> IP | None:
    """The address that *text* spells; zone ids dropped, IPv4 inside IPv6 unwrapped. None when it is a name."""
    try:
        address = ipaddress.ip_address(text.split("%", 1)[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _within(address: IP, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def refused(text: str, known: Iterable[Network] = ()) -> bool:
    """True when the address *text* lies in a blocked range and in none of the *known* networks."""
    address = parse_ip(text)
    return address is None or (_within(address, BLOCKED) and not _within(address, known))
