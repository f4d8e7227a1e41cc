"""Signing operations on a handle, here or on a machine without a network; `operation_files` carries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from indai.cli.enrolment import rotation_key
from indai.cli.errors import wrong
from indai.cli.home import Home
from indai.cli.operation_files import operation_name, read_history, write_operation
from indai.cli.output import Page, emit
from indai.cli.session import Registry, now_ms, registry_session
from indai.client.handlekeys import load_key_file
from indai.protocol.envelope import Envelope
from indai.protocol.handles import Handle
from indai.protocol.keys import SigningKey
from indai.protocol.operations import Chain, parse_operation
from indai.v1 import registry_pb2

F = TypeVar("F", bound=Callable[..., Any])
Build = Callable[[Chain, SigningKey, int], Envelope]


@dataclass(frozen=True, slots=True)
class Signing:
    """How an operation is signed: with which key file, over which history, and whether it is submitted."""

    key: str = ""
    history: str = ""
    sign_only: bool = False
    output: str = ""
    registry: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """An operation that was signed: in `file`, or at `index` of the registry's log."""

    handle: str
    kind: str
    mid: str
    seq: int
    file: str = ""
    index: int | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "handle": self.handle,
            "operation": self.kind,
            "mid": self.mid,
            "seq": self.seq,
            "file": self.file,
            "index": self.index,
            "warnings": list(self.warnings),
        }


def signing_options(command: F) -> F:
    """`--key`, `--history`, `--sign-only`, `-o`, `--registry`, as one `how`."""
    for option in (
        click.option(
            "--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none."
        ),
        click.option(
            "-o", "--output", metavar="FILE", default="", help="Where --sign-only puts the operation."
        ),
        click.option("--sign-only", is_flag=True, help="Sign, and do not submit."),
        click.option("--history", metavar="FILE", default="", help="The handle's history, when offline."),
        click.option(
            "--key", metavar="FILE", default="", help="Rotation key; default: offline/ in the data."
        ),
    ):
        command = option(command)
    return command


async def perform(home: Home, handle: str, how: Signing, build: Build) -> Done:
    """Sign what `build` makes of the handle's chain, and submit it, or put it into a file."""
    name = str(Handle.parse(handle))
    if how.sign_only and not how.output:
        raise wrong("Nobody said where the signed operation goes.", "add -o FILE")
    signer = load_key_file(Path(how.key)) if how.key else rotation_key(home, name)
    if how.history:
        chain = read_history(how.history)
        if chain.handle != name:
            raise wrong(f"{how.history} is the history of {chain.handle}, not of {name}.")
    else:
        async with registry_session(home, how.registry) as where:
            chain = (await where.resolver.resolve(name)).chain
    operation = build(chain, signer, now_ms())
    if how.sign_only:
        write_operation(how.output, operation)
        return done_of(operation, file=how.output)
    async with registry_session(home, how.registry) as where:
        return await submit_operation(where, operation)


async def submit_operation(
    where: Registry, operation: Envelope, *, invite: str = "", voucher: bytes = b""
) -> Done:
    """Append a signed operation to the registry's log."""
    answer = await where.stub.SubmitOperation(
        registry_pb2.SubmitOperationRequest(operation=operation.raw, invite=invite, voucher=voucher)
    )
    return done_of(operation, index=answer.index, warnings=tuple(answer.warnings))


def show_done(done: Done, words: str) -> None:
    """Tell what was done, in `words` when it was submitted."""

    def page(out: Page) -> None:
        if done.file:
            out.line(f"The {done.kind} of {done.handle} is signed, and nothing is changed yet.", "green")
            out.next_step(f"indai handle submit {done.file}")
            return
        out.line(words, "green")
        out.fields([("operation", f"{done.kind} {done.seq}"), ("log index", str(done.index))])
        for warning in done.warnings:
            out.line(warning, "yellow")

    emit(done.to_json(), page)


def done_of(envelope: Envelope, **more: Any) -> Done:
    """What was done with a signed operation: in `file`, or at `index` of the log."""
    operation = parse_operation(envelope)
    return Done(operation.handle, operation_name(operation.type), envelope.mid.hex(), operation.seq, **more)
