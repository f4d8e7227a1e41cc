"""Runs one process of the program for a test: `python serve.py SETTINGS.json`, until SIGTERM.

The rotation key of the node's handle lies beside the data, as an operator would keep it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from indai.client.channels import plain_channel
from indai.client.handlekeys import claim, create_key_file, load_key_file, set_node_record
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.node import app, logs
from indai.node.settings import RunInfo, Settings
from indai.protocol.errors import NotFound
from indai.protocol.handlestate import NodeRecord
from indai.v1 import registry_pb2
from indai.v1.registry_pb2_grpc import RegistryServiceStub


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
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

    async def enrol(handle: str, record: registry_pb2.NodeRecord) -> None:
        now = time.time_ns() // 1_000_000
        policy, key_file = NetworkPolicy.load(Path(plan["network"])), data / "rotation.key"
        stub = RegistryServiceStub(plain_channel(plan["neighbours"]["registry"]))
        wanted = NodeRecord(record.address, record.tls_spki_sha256, record.ledger_origin, record.ledger_vkey)
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


main()
