"""Runs one process of the program for a test, until SIGTERM.

The processes are forked off one that has loaded the program, which takes longer than all that they do. The
rotation key of the node's handle lies beside the data, as an operator would keep it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from indai.client.channels import plain_channel
from indai.client.handlekeys import claim, create_key_file, load_key_file, set_node_record
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.node import app, faults, front_role, llm_role, logs, memory_role, node_role
from indai.node.settings import RunInfo, Settings
from indai.protocol.errors import NotFound
from indai.protocol.handlestate import NodeRecord
from indai.v1 import registry_pb2
from indai.v1.registry_pb2_grpc import RegistryServiceStub

# What the program imports when a role starts, a fork of this process has then.
ROLES = (front_role, llm_role, memory_role, node_role)
_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload([__name__])


def started(settings: Path, output: Path, kill_at: str) -> ForkServerProcess:
    """One process, that dies at `kill_at` if that is not ""; what it says is appended to `output`."""
    process = _fork.Process(target=_main, args=(settings, output, kill_at))
    scratch = Path(tempfile.gettempdir())
    try:
        # The first start makes a directory that lasts as long as the interpreter: longer than the tests' own.
        tempfile.tempdir = str(scratch.parent)
        process.start()
    finally:
        tempfile.tempdir = str(scratch)
    return process


def _main(settings_file: Path, output: Path, kill_at: str) -> None:
    with output.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    faults.arm(kill_at)
    plan = json.loads(settings_file.read_text())
    data = Path(plan["data"])
    settings = Settings(
        data=data,
        roles=frozenset(plan["roles"]),
        handle=plan["handle"],
        listen=plan["listen"],
        neighbours=plan["neighbours"],
        network=Path(plan["network"]) if plan["network"] else None,
        advertise=plan.get("advertise", ""),
    )

    async def ready(info: RunInfo) -> None:
        draft = data / "run.new"
        draft.write_text(json.dumps(info.addresses))
        draft.rename(data / "run.json")

    async def enrol(registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
        now = time.time_ns() // 1_000_000
        policy, key_file = NetworkPolicy.load(Path(plan["network"])), data / "rotation.key"
        stub = RegistryServiceStub(plain_channel(registry))
        wanted = NodeRecord.from_proto(record)
        try:
            known = await Resolver(stub, policy, lambda: now).resolve(handle)
        except NotFound:
            key = create_key_file(key_file)
            operation = claim(handle, policy.origin, [key], now_ms=now, node_record=wanted)
        else:
            if known.state.node_record == wanted:
                return
            operation = set_node_record(known.chain, load_key_file(key_file), wanted, now_ms=now)
        await stub.SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))

    logs.configure("console", "WARNING")
    app.main(settings, ready=ready, enrol=enrol)
