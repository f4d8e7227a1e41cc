"""A data directory: what `indai up` keeps in it, and what the other commands find there.

    run.json                  who runs here and where it listens; there while it runs
    network.policy            whose registry is believed
    operator.token            the operator's token (0600)
    tokens/NAME.token         one owner's token (0600)
    offline/NAME.rotation.key a handle's rotation key (0600): move it to a safe place, no server needs it
    calendars/NAME.ics        an agent's calendar, unless it was given another
    exports/                  what was exported

NAME is a handle with `_` in the place of each `/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from indai.client.network import NetworkPolicy
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.handles import Handle

_ROTATION = ".rotation.key"


@dataclass(frozen=True, slots=True)
class Run:
    """A running process: addresses by role (`owner` and `peer` are the node's), those of others as well."""

    pid: int
    node: str
    roles: Mapping[str, str]
    neighbours: Mapping[str, str] = field(default_factory=dict)
    tls: str = ""  # hex pin of the owner port's key when it speaks TLS

    def to_json(self) -> dict[str, Any]:
        """As it stands in run.json."""
        return {
            "pid": self.pid,
            "node": self.node,
            "roles": dict(self.roles),
            "neighbours": dict(self.neighbours),
            "tls": self.tls,
        }


@dataclass(frozen=True, slots=True)
class Home:
    """One data directory."""

    path: Path

    @property
    def run_file(self) -> Path:
        """Where a running process says so."""
        return self.path / "run.json"

    @property
    def network_file(self) -> Path:
        """The network's policy."""
        return self.path / "network.policy"

    @property
    def head_file(self) -> Path:
        """The newest registry head that these commands have verified."""
        return self.path / "registry-head.commands"

    @property
    def exports(self) -> Path:
        """Where exports go."""
        return self.path / "exports"

    def token_file(self, handle: str) -> Path:
        """An owner's token."""
        return self.path / "tokens" / f"{file_name(handle)}.token"

    def rotation_file(self, handle: str) -> Path:
        """A handle's rotation key."""
        return self.path / "offline" / f"{file_name(handle)}{_ROTATION}"

    def claim_file(self, handle: str) -> Path:
        """A signed claim that waits for its domain's word."""
        return self.path / "offline" / f"{file_name(handle)}.claim.json"

    def running(self) -> Run:
        """The process that runs here; raises NotFound with what to start."""
        try:
            found = json.loads(self.run_file.read_text("utf-8"))
            run = Run(
                int(found["pid"]),
                str(found["node"]),
                dict(found["roles"]),
                dict(found.get("neighbours", {})),
                str(found.get("tls", "")),
            )
        except FileNotFoundError:
            raise self._nothing_runs() from None
        except (ValueError, KeyError, TypeError):
            raise NotFound(
                Reason.NOT_FOUND, f"{self.run_file} cannot be read.", hint="start the node again: indai up"
            ) from None
        if not _is_alive(run.pid):
            raise self._nothing_runs()
        return run

    def network(self) -> NetworkPolicy:
        """Whose registry is believed."""
        if not self.network_file.exists():
            raise NotFound(
                Reason.NOT_FOUND,
                f"There is no network.policy in {self.path}, so no registry can be believed.",
                hint="start the node (indai up), or name its data directory with --data",
            )
        return NetworkPolicy.load(self.network_file)

    def operator_token(self) -> str:
        """The operator's token."""
        path = self.path / "operator.token"
        return self._secret(path, "operator's token", "run this where the node's data directory is")

    def owner_token(self, handle: str) -> str:
        """An owner's token."""
        hint = f"claim the handle here: indai handle claim {handle}"
        return self._secret(self.token_file(handle), f"token of {handle}", hint)

    def owners(self) -> list[str]:
        """The handles whose tokens are here."""
        return sorted(
            path.name.removesuffix(".token").replace("_", "/") for path in self.path.glob("tokens/*.token")
        )

    def owner(self, chosen: str) -> str:
        """The handle to act as: the one named, or the only one here."""
        if chosen:
            return str(Handle.parse(chosen))
        owners = self.owners()
        if len(owners) == 1:
            return owners[0]
        if not owners:
            raise NotFound(
                Reason.NOT_FOUND,
                f"No handle has been claimed in {self.path}.",
                hint="claim one: indai handle claim ind.ai/alice",
            )
        raise Refused(
            Reason.INVALID_ARGUMENT,
            f"Several handles live here: {', '.join(owners)}.",
            hint=f"say which with --as, for example --as {owners[0]}",
        )

    def write(self, path: Path, text: str) -> None:
        """Replace a private file as a whole."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def _secret(self, path: Path, what: str, hint: str) -> str:
        try:
            return path.read_text("utf-8").strip()
        except FileNotFoundError:
            raise NotFound(Reason.NOT_FOUND, f"There is no {what} in {self.path}.", hint=hint) from None

    def _nothing_runs(self) -> NotFound:
        return NotFound(
            Reason.NOT_FOUND,
            f"No node is running on {self.path}.",
            hint="start one with `indai up`, or name its data directory with --data",
        )


def default_path() -> Path:
    """Where the data lies when nobody says. Root's own home is closed to the account that runs Postgres."""
    return Path("/var/lib/indai/home") if os.geteuid() == 0 else Path.home() / ".indai"


def file_name(handle: str) -> str:
    """A handle as part of a file's name."""
    return handle.replace("/", "_")


def data_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--data`, as the parameter `home`."""

    def read(_: click.Context, __: click.Parameter, value: str | None) -> Home:
        return Home(Path(os.path.abspath(value)) if value else default_path())

    return click.option(
        "--data",
        "home",
        metavar="DIR",
        envvar="INDAI_DATA",
        callback=read,
        help="Data directory of the node.",
    )(command)


def as_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--as`, as the parameter `acting`, and `--data`."""
    return click.option(
        "--as",
        "acting",
        metavar="HANDLE",
        default="",
        envvar="INDAI_HANDLE",
        help="Act as this handle (needed when several live here).",
    )(data_option(command))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
