"""The address of a client, and the network that counts as one source."""

from __future__ import annotations

import pytest

from ironic_lite.api.wire import client_address


@pytest.mark.parametrize(
    ("environ", "proxied", "address"),
    [
        ({"REMOTE_ADDR": "192.0.2.1"}, False, "192.0.2.1"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7"}, False, "192.0.2.1"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "a, 192.0.2.7"}, True, "192.0.2.7"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "a, "}, True, "192.0.2.1"),
        ({"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "x" * 99}, True, "x" * 64),
        ({}, True, ""),
    ],
)
def test_a_trusted_proxy_names_the_address(
    environ: dict[str, str], proxied: bool, address: str
) -> None:
    assert client_address.of(environ, proxied=proxied) == address


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_an_address_has_its_network(address: str, network: str) -> None:
    assert client_address.network(address) == network
