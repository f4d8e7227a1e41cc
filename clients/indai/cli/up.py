"""`indai up`: run a node, a registry, or any of the roles, until it is told to stop."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click
from indai.cli.enrolment import enrol_node
from indai.cli.errors import wrong
from indai.cli.framework import command
from indai.cli.home import Home, Run, data_option
from indai.cli.operation_files import public_key
from indai.cli.output import Page, emit
from indai.client.addresses import parse_address
from indai.client.network import NetworkPolicy
from indai.client.tls import spki_sha256
from indai.edge.forwarded import networks
from indai.node import logs
from indai.node.settings import ALL_ROLES, ROLES, RunInfo, Settings
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.handles import Handle
from indai.v1 import registry_pb2

# Counted from --base-port. A node has two: `owner` for its owners, `peer` for other nodes. Public logs and
# the witness are on `http`; `openai` is for an owner's other tools.
BASE_PORT = 7400
PORTS = {
    name: number
    for number, name in enumerate(
        ("registry", "owner", "peer", "policy", "ledger", "http", "a2a", "llm", "openai", "memory"), start=1
    )
}


@command(
    "up",
    "indai up",
    "indai up --role registry --data ./registry",
    "indai up --role policy --role ledger --role node --handle ind.ai/north "
    "--registry 127.0.0.1:7401 --network ./registry/network.policy --data ./north",
    "indai up --base-port 7500 --registry 127.0.0.1:7401 --network ~/.indai/network.policy "
    "--handle ind.ai/south --data ./south",
)
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(ALL_ROLES), help="Only these roles (repeat)."
)
@data_option
@click.option("--handle", metavar="HANDLE", default="", help="The node's own handle (AUTHORITY/home).")
@click.option("--authority", metavar="DOMAIN", default="ind.ai", show_default=True, help="Of the registry.")
@click.option("--registry", metavar="HOST:PORT", default="", help="A registry in another process.")
@click.option("--network", metavar="FILE", default="", help="That registry's network.policy.")
@click.option("--witnesses", metavar="FILE", default="", help="A registry's witnesses: a tlog-policy file.")
@click.option(
    "--guard", metavar="DIR", default="", help="Where a witness keeps its last heads again, on another disk."
)
@click.option("--invites", metavar="FILE", default="", help="A registry's invite codes, one a line.")
@click.option("--issuer", "issuers", metavar="PUBLIC", multiple=True, help="Who vouches for claims (repeat).")
@click.option("--branded", is_flag=True, help="Let domains be handles: it asks them over DNS and HTTPS.")
@click.option("--policy", metavar="HOST:PORT", default="", help="A policy role in another process.")
@click.option("--ledger", metavar="HOST:PORT", default="", help="A ledger role in another process.")
@click.option("--llm", metavar="HOST:PORT", default="", help="An llm role in another process.")
@click.option(
    "--llm-config", metavar="FILE", default="", help="Models and providers (default: DATA/llm.yaml)."
)
@click.option("--memory", metavar="HOST:PORT", default="", help="A memory role in another process.")
@click.option(
    "--listen",
    "listens",
    metavar="PORT=HOST:PORT",
    multiple=True,
    help=f"Where {', '.join(PORTS)} listen (repeat).",
)
@click.option(
    "--base-port",
    metavar="PORT",
    type=click.IntRange(1, 65_535 - len(PORTS)),
    default=BASE_PORT,
    show_default=True,
    help="Ports that --listen does not name follow this one: a second node's on one machine.",
)
@click.option(
    "--ledger-year",
    metavar="YEAR",
    type=click.IntRange(2000, 9999),
    help="Begin another ledger, of this year (default: go on with the newest).",
)
@click.option("--advertise", metavar="HOST:PORT", default="", help="Where other nodes reach this one.")
@click.option(
    "--tls",
    type=click.Choice(["auto", "always"]),
    default="auto",
    show_default=True,
    help="Between nodes it is always on; `always`: for owners on loopback too.",
)
@click.option("--tls-cert", metavar="FILE", default="", help="Certificate chain (PEM) for the owner's port.")
@click.option("--tls-key", metavar="FILE", default="", help="Its key (PEM).")
@click.option("--private-peers", is_flag=True, help="Allow other nodes inside private networks.")
@click.option(
    "--proxy",
    "proxies",
    metavar="NET",
    multiple=True,
    help="A proxy before the http port, whose X-Forwarded-For is believed; may be repeated.",
)
@click.option("--public-url", metavar="URL", default="", help="How strangers' clients reach the http port.")
@click.option("--conformance", is_flag=True, help="Serve A2A's conformance agent, on loopback.")
@click.option("--reflection", is_flag=True, help="Let tools such as grpcurl list the services.")
@click.option(
    "--log-format",
    type=click.Choice(["json", "console"]),
    default="console" if sys.stderr.isatty() else "json",
    help="How logs are written, on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning" if sys.stderr.isatty() else "info",
    help="From where on.",
)
def up(
    home: Home,
    roles: tuple[str, ...],
    handle: str,
    authority: str,
    registry: str,
    network: str,
    witnesses: str,
    guard: str,
    invites: str,
    issuers: tuple[str, ...],
    branded: bool,
    policy: str,
    ledger: str,
    llm: str,
    llm_config: str,
    memory: str,
    listens: tuple[str, ...],
    base_port: int,
    ledger_year: int | None,
    advertise: str,
    private_peers: bool,
    tls: str,
    tls_cert: str,
    tls_key: str,
    proxies: tuple[str, ...],
    public_url: str,
    conformance: bool,
    reflection: bool,
    log_format: Literal["json", "console"],
    log_level: str,
) -> None:
    """Run a node with everything it needs, until Ctrl-C.

    Without options: registry, policy, ledger, llm, memory and node in one
    process, on a Postgres of its own. With --role, some of them, wired to the
    others by address.
    """
    logs.configure(log_format, log_level)
    chosen = frozenset(roles or (ROLES if not registry else set(ROLES) - {"registry"}))
    chosen |= {"edge"} if conformance or ("node" in chosen and not roles) else set()
    neighbours = {"registry": registry, "policy": policy, "ledger": ledger, "llm": llm, "memory": memory}
    settings = Settings(
        data=home.path,
        roles=chosen,
        authority=authority,
        handle=str(Handle.parse(handle)) if handle else "",
        listen=_listen(chosen, listens, base_port),
        neighbours={role: str(parse_address(at)) for role, at in neighbours.items() if at},
        network=_network(home, network),
        witnesses=Path(witnesses) if witnesses else None,
        guard=Path(guard) if guard else None,
        invites=Path(invites) if invites else None,
        issuers=tuple(map(public_key, issuers)),
        branded=branded,
        advertise=str(parse_address(advertise)) if advertise else "",
        private_peers=private_peers,
        tls=tls,
        tls_certificate=_certificate(tls_cert, tls_key),
        reflection=reflection,
        conformance=conformance,
        public_url=public_url.rstrip("/"),
        proxies=networks(proxies),
        llm_config=_llm_config(home, llm_config),
        ledger_year=ledger_year or 0,
    )
    with _only_one(home):
        _serve(home, settings)


def _serve(home: Home, settings: Settings) -> None:
    pin = spki_sha256(settings.tls_certificate[0].read_bytes()).hex() if settings.tls_certificate else ""
    own_pin: list[str] = []

    async def enrol(registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
        own_pin.append(record.tls_spki_sha256.hex())
        await enrol_node(home, registry, handle, record)

    async def ready(info: RunInfo) -> None:
        tls = pin or (own_pin[0] if settings.tls == "always" and own_pin else "")
        run = Run(os.getpid(), info.node, dict(info.addresses), dict(settings.neighbours), tls)
        home.write(home.run_file, json.dumps(run.to_json(), indent=1) + "\n")
        emit(run.to_json() | {"data": str(home.path)}, lambda page: _show(page, home, run))
        sys.stdout.flush()

    try:
        from indai.node import app  # noqa: PLC0415 - two seconds of a core, which `--help` needn't take

        app.main(settings, ready=ready, enrol=enrol)
    finally:
        home.run_file.unlink(missing_ok=True)


def _show(page: Page, home: Home, run: Run) -> None:
    what = run.node if "owner" in run.roles else f"The {' and the '.join(sorted(run.roles))} role"
    page.line(f"{what} is up.", "green")
    names = {"owner": "owners", "peer": "other nodes"}
    page.fields([(names.get(role, role), address) for role, address in sorted(run.roles.items())])
    page.fields([("data", str(home.path)), ("stop", "Ctrl-C")])
    vkey = home.path / "witness.vkey"
    if set(run.roles) == {"http"} and vkey.exists():
        line = f"witness {run.node.rpartition('/')[2]} {vkey.read_text().strip()} http://{run.roles['http']}"
        page.line("For the registry's --witnesses file:")
        page.raw(line)
    elif "owner" in run.roles and not home.owners():
        page.next_step("indai handle claim ind.ai/alice")
    elif "owner" in run.roles:
        acting = f"--as {home.owners()[0]}"
        page.next_step(f"indai desk code {acting}" if "desk" in run.roles else f"indai threads {acting}")
    elif "registry" in run.roles:
        page.next_step(
            "indai up --role policy --role ledger --role node "
            f"--registry {run.roles['registry']} --network {home.network_file} --data DIR"
        )


def _listen(roles: frozenset[str], listens: tuple[str, ...], base: int) -> dict[str, str]:
    """Where each port of these roles listens: as told, else on loopback at its usual number."""
    told: dict[str, str] = {}
    for text in listens:
        name, _, address = text.partition("=")
        if name not in PORTS or not address:
            raise wrong(
                f"{text!r} does not say where something listens.",
                f"write it like owner=127.0.0.1:7402; the names are {', '.join(PORTS)}",
            )
        told[name] = str(parse_address(address))
    inner = {"policy", "ledger", "llm", "memory"} & roles
    served = {"registry"} & roles | ({"owner", "peer"} if "node" in roles else inner)
    if {"registry", "witness"} & roles and not told:
        served = {*served, "http"}
    if "edge" in roles:
        served = {*served, "http", "a2a"}
    if {"node", "llm"} <= roles and not told:
        served = {*served, "openai"}
    return {name: f"127.0.0.1:{base + PORTS[name]}" for name in sorted(served)} | told


def _network(home: Home, network: str) -> Path | None:
    """The network's policy file, copied into the data directory, where the other commands look for it."""
    if not network:
        return None
    NetworkPolicy.load(Path(network))
    home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if Path(network).resolve() != home.network_file.resolve():
        shutil.copyfile(network, home.network_file)
    return home.network_file


def _llm_config(home: Home, given: str) -> Path | None:
    usual = home.path / "llm.yaml"
    return Path(given) if given else usual if usual.exists() else None


def _certificate(chain: str, key: str) -> tuple[Path, Path] | None:
    if bool(chain) != bool(key):
        raise wrong(
            "A certificate needs its key, and a key its certificate.", "give --tls-cert and --tls-key"
        )
    return (Path(chain), Path(key)) if chain else None


@contextlib.contextmanager
def _only_one(home: Home) -> Iterator[None]:
    """Refuse a second process on the same data."""
    try:
        run = home.running()
    except NotFound:
        yield
        return
    if run.pid == os.getpid():  # in a container the one that was killed had our number too
        yield
        return
    raise Refused(
        Reason.ALREADY_EXISTS,
        f"A node is running on {home.path} already (process {run.pid}).",
        hint=f"stop it with: kill {run.pid}; or name another directory with --data",
    )
