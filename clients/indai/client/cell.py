"""Channels to roles in other processes: plaintext on loopback, TLS 1.3 everywhere else.

* **The roles of one cell** (policy, ledger) know each other by the cell's token. Both ends derive the same
  key from it (HKDF, RFC 5869), and the certificate that follows is the only root a client takes: who can show
  it knows the token. There is nothing to issue, to hand out or to renew.
* **A registry** shows a certificate under the open CA, which proves nothing (`indai.client.tls`): TLS only
  hides who asks about whom. That the answers are true is proved by the log (`indai.client.resolver`).
"""

from __future__ import annotations

import functools

import grpc
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from grpc import aio
from indai.client.addresses import parse_address
from indai.client.channels import CHANNEL_OPTIONS, CheckedChannel, bearer, plain_channel
from indai.client.tls import SERVER_NAME, NodeIdentity, make_node_identity, open_ca_certificate

_PURPOSE = b"ind.ai/cell-tls/v1"


@functools.lru_cache(maxsize=4)
def cell_identity(token: str) -> NodeIdentity:
    """The TLS key and certificate that every process with this token derives."""
    # The order of P-256 is above 2^255: a 31-byte number is always a valid private key.
    secret = HKDF(hashes.SHA256(), length=31, salt=None, info=_PURPOSE).derive(token.encode())
    return make_node_identity("a cell", ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1()))


def cell_channel(address: str, token: str) -> CheckedChannel:
    """A channel to a role of one's own cell, which presents the token. Raises InvalidInput for no address."""
    if parse_address(address).is_loopback:
        return plain_channel(address, token=token)
    return _tls_channel(address, cell_identity(token).cert_pem, token)


def registry_channel(address: str) -> CheckedChannel:
    """A channel to a registry, whose answers must be verified. Raises InvalidInput for no address."""
    if parse_address(address).is_loopback:
        return plain_channel(address)
    return _tls_channel(address, open_ca_certificate())


def _tls_channel(address: str, root: bytes, token: str = "") -> CheckedChannel:
    named = ("grpc.ssl_target_name_override", SERVER_NAME)
    inner = aio.secure_channel(
        parse_address(address).target,
        grpc.ssl_channel_credentials(root),
        options=[*CHANNEL_OPTIONS, named],
    )
    return CheckedChannel(inner, address, metadata=bearer(token))
