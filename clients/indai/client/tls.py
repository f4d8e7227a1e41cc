"""TLS between nodes: each side knows the other by the SHA-256 of its public key, as the registry's record
states it.

grpc-python can neither ask for a client certificate without verifying it nor call back on verification.
Therefore:

* **The open CA authenticates NOBODY.** Its private key is derived below from a public sentence, so anyone can
  issue certificates under it, and everyone is meant to. It exists because the server's TLS stack demands a
  certificate only when it is given a root to check it against. What the handshake then proves is possession
  of the key in the certificate, nothing more. Never add it to a trust store, and never take "the handshake
  passed" for an identity.
* **A server** learns the caller's certificate from the call's `auth_context`; our code compares the hash of
  its key (`caller_spki`) with the registry's record of the node that the message claims to come from.
* **A client** fetches the server's certificate first, compares the hash of its key with the record, and then
  connects with exactly that leaf as the only root, so the connection it uses can only be with the holder of
  that key.

Certificates: X.509 v3, P-256, RFC 5280 (which writes "no expiry" as the end of the year 9999); the pin is the
SHA-256 of the DER SubjectPublicKeyInfo, as in RFC 7469.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from grpc import aio
from indai.client.addresses import Address, parse_address, resolve
from indai.client.channels import CHANNEL_OPTIONS, CheckedChannel, Metadata, Options
from indai.client.rpc import unreachable
from indai.protocol.errors import Reason, Refused, Unavailable

SERVER_NAME: Final = "indai-node"
"""The subject alternative name in every node's certificate: names prove nothing here, the key does."""

CONNECT_TIMEOUT_S: Final = 5.0

_OPEN_CA_SENTENCE: Final = b"ind.ai open CA v1: this key is public and authenticates nobody\n"
_NOT_BEFORE: Final = datetime(2025, 1, 1, tzinfo=UTC)  # fixed, so that a wrong clock cannot make one invalid
_NOT_AFTER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_COMMON_NAME_MAX: Final = 64  # RFC 5280, ub-common-name


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node's TLS key and certificate (PEM), and the pin (32 bytes) that its registry record states."""

    key_pem: bytes = field(repr=False)
    cert_pem: bytes
    spki_sha256: bytes


def make_node_identity(common_name: str, key: ec.EllipticCurvePrivateKey | None = None) -> NodeIdentity:
    """`key`, else a new one, certified under the open CA; `common_name` (the handle) is for people only.

    The same name and key give the same certificate.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    ca_key, ca = _open_ca()
    builder = (
        _certificate(common_name, key.public_key(), ca.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
    )
    cert = builder.sign(ca_key, hashes.SHA256(), ecdsa_deterministic=True)
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return NodeIdentity(key_pem, cert.public_bytes(Encoding.PEM), _pin(cert))


def spki_sha256(cert_pem: bytes) -> bytes:
    """SHA-256 (32 bytes) of a PEM certificate's SubjectPublicKeyInfo. Raises Refused for anything else."""
    try:
        cert = x509.load_pem_x509_certificate(cert_pem)
    except ValueError:
        raise _unreadable() from None
    return _pin(cert)


def peer_server_credentials(identity: NodeIdentity) -> grpc.ServerCredentials:
    """For a PeerService: a client must show a certificate and hold its key; whose it is, we check."""
    return grpc.ssl_server_credentials(
        [(identity.key_pem, identity.cert_pem)], open_ca_certificate(), require_client_auth=True
    )


def open_ca_certificate() -> bytes:
    """The open CA's certificate (PEM). It authenticates nobody: see the module."""
    return _open_ca()[1].public_bytes(Encoding.PEM)


def caller_spki(context: Any) -> bytes | None:
    """The pin of the caller's certificate, whose key it has proved to hold; None without mutual TLS."""
    certificates = context.auth_context().get("x509_pem_cert")
    return _cached_pin(bytes(next(iter(certificates)))) if certificates else None


async def pinned_channel(
    address: str,
    pin: bytes,
    identity: NodeIdentity | None = None,
    options: Options = (),
    *,
    public_only: bool = False,
    metadata: Metadata = (),
    **checked: Any,
) -> CheckedChannel:
    """A channel to the holder of the key with hash `pin` at `address`, showing `identity` when there is one.

    Raises Refused(PIN_MISMATCH) when another key answers, Unavailable(UNREACHABLE) when nobody does,
    InvalidInput for a malformed address, Refused(INSECURE) for one that is not public when `public_only`.
    `checked` goes to `CheckedChannel`.
    """
    where = parse_address(address)
    reached, leaf = await _first_certificate(await resolve(where, public_only=public_only))
    found = _pin(leaf)
    if found != pin:
        raise Refused(
            Reason.PIN_MISMATCH,
            f"{where} answers with key {_short(found)}, but the record says {_short(pin)}.",
            hint="look the record up again; if it stays different, somebody else answers at this address",
            metadata={"address": str(where)},
        )
    credentials = grpc.ssl_channel_credentials(
        leaf.public_bytes(Encoding.PEM),
        identity.key_pem if identity else None,
        identity.cert_pem if identity else None,
    )
    named = ("grpc.ssl_target_name_override", _name_in(leaf))
    inner = aio.secure_channel(reached.target, credentials, options=[*CHANNEL_OPTIONS, named, *options])
    return CheckedChannel(inner, str(where), metadata=metadata, **checked)


async def _first_certificate(candidates: list[Address]) -> tuple[Address, x509.Certificate]:
    """The first of a host's addresses that answers, and what it shows."""
    for candidate in candidates[:-1]:
        try:
            return candidate, await _fetch_certificate(candidate)
        except Unavailable:
            continue
    return candidates[-1], await _fetch_certificate(candidates[-1])


async def _fetch_certificate(where: Address) -> x509.Certificate:
    """The certificate that the server shows, unverified: the caller compares it, and then trusts only it.

    In TLS 1.3 the client is done before the server looks for a client certificate, so none is needed here.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(where.host, where.port, ssl=_probe_context())
    except ssl.SSLError:
        raise unreachable(str(where), "it does not speak TLS 1.3") from None
    except TimeoutError:
        raise unreachable(str(where), "the connection timed out") from None
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        raise unreachable(str(where), "connection refused" if refused else (error.strerror or "")) from None
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    try:
        return x509.load_der_x509_certificate(shown)
    except (TypeError, ValueError):
        raise _unreadable() from None


@functools.cache
def _probe_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    return context


@functools.cache
def _open_ca() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    # The order of P-256 is above 2^255: a 31-byte number is always a valid private key.
    secret = int.from_bytes(hashlib.sha256(_OPEN_CA_SENTENCE).digest()[:31], "big")
    key = ec.derive_private_key(secret, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ind.ai open CA (authenticates nobody)")])
    builder = _certificate("ind.ai open CA (authenticates nobody)", key.public_key(), name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return key, builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)


def _certificate(
    common_name: str, key: ec.EllipticCurvePublicKey, issuer: x509.Name
) -> x509.CertificateBuilder:
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_COMMON_NAME_MAX])])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(1 + int.from_bytes(digest[:16], "big"))  # never 0, and a key's own
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
    )


def _pin(cert: x509.Certificate) -> bytes:
    try:
        spki = cert.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        raise _unreadable() from None
    return hashlib.sha256(spki).digest()


def _unreadable() -> Refused:
    return Refused(
        Reason.PIN_MISMATCH,
        "The other side shows a certificate that cannot be read.",
        hint="nodes show an X.509 certificate with a P-256 key",
    )


@functools.lru_cache(maxsize=1024)
def _cached_pin(cert_pem: bytes) -> bytes:
    return spki_sha256(cert_pem)


def _name_in(cert: x509.Certificate) -> str:
    """A name that the certificate bears: an operator's own certificate has its own."""
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return SERVER_NAME
    return next(iter(names.get_values_for_type(x509.DNSName)), SERVER_NAME)


def _short(pin: bytes) -> str:
    return pin.hex()[:12]
