"""What HTTP clients send that is wrong, cards with their caching, and webhooks, over plain HTTP."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import aiohttp
import pytest
from a2a.types import a2a_pb2 as pb
from aiohttp import web
from indai.a2a.http_binding import MAX_BODY
from indai.a2a.push import PushConfigs
from indai.node.http_server import HttpServer

from tests.service.a2a.conftest import Node, context, message

VERSION = {"A2A-Version": "1.0", "X-Caller": "ann"}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


async def _post(node: Node, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    given = {"Content-Type": "application/json"} | VERSION | headers
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{node.http}{path}", data=data, headers=given) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tasks/get"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', -32001),
    ],
)
async def test_a_wrong_jsonrpc_request_gets_its_code(node: Node, body: bytes, code: int) -> None:
    status, answer = await _post(node, "/a2a/jsonrpc", body)
    assert status == 200
    assert answer["error"]["code"] == code
    assert answer["error"]["data"][0]["@type"] == ERROR_INFO
    assert answer["jsonrpc"] == "2.0"
    assert "result" not in answer


async def test_the_number_of_a_request_comes_back(node: Node) -> None:
    for number in ("a", 7, None):
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "ListTasks", "params": {}}
        _, answer = await _post(node, "/a2a/jsonrpc", request)
        assert answer["id"] == number
        assert answer["result"] == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/a2a/message:send", b"{", 400, "INVALID_REQUEST"),
        ("/a2a/message:send", b"[]", 400, "INVALID_REQUEST"),
        ("/a2a/message:send", {}, 400, "INVALID_PARAMS"),
        ("/a2a/message:send", {"message": {"role": "ROLE_KING"}}, 400, "INVALID_PARAMS"),
        ("/a2a/nobody/message:send", {"message": {}}, 400, "INVALID_PARAMS"),
        ("/a2a/tasks/x:cancel", {}, 404, "TASK_NOT_FOUND"),
        ("/a2a/tasks/x:subscribe", {}, 404, "TASK_NOT_FOUND"),
    ],
)
async def test_a_wrong_rest_request_gets_its_status(
    node: Node, path: str, body: Any, status: int, reason: str
) -> None:
    found, answer = await _post(node, path, body)
    assert found == status
    assert answer["error"]["code"] == status
    assert answer["error"]["details"][0] | {"metadata": None} == {
        "@type": ERROR_INFO,
        "reason": reason,
        "domain": "a2a-protocol.org",
        "metadata": None,
    }


async def test_no_version_means_the_old_one_which_is_refused(node: Node) -> None:
    for path in ("/a2a/message:send", "/a2a/jsonrpc"):
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
        _, answer = await _post(node, path, body, **{"A2A-Version": ""})
        details = answer["error"].get("details") or answer["error"]["data"]
        assert details[0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_other_content_types_and_long_bodies_are_refused(node: Node) -> None:
    status, answer = await _post(node, "/a2a/message:send", {}, **{"Content-Type": "text/plain"})
    assert (status, answer["error"]["details"][0]["reason"]) == (400, "CONTENT_TYPE_NOT_SUPPORTED")
    status, answer = await _post(node, "/a2a/message:send", b" " * (MAX_BODY + 1))
    assert (status, answer["error"]["details"][0]["reason"]) == (413, "TOO_LARGE")


async def test_who_proves_nobody_is_told_how(node: Node) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{node.http}/a2a/tasks", headers=VERSION | {"X-Caller": "nobody"}) as answer,
    ):
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_path_that_is_no_operation_says_so(node: Node) -> None:
    status, answer = await _post(node, "/a2a/message:shout", {})
    assert (status, answer["error"]["details"][0]["reason"]) == (404, "METHOD_NOT_FOUND")


async def test_cards_are_served_with_what_a_cache_needs(node: Node) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/.well-known/agent-card.json", "/tck/.well-known/agent-card.json"):
            async with session.get(f"http://{node.http}{path}") as answer:
                card = await answer.json()
                tag = answer.headers["ETag"]
                assert answer.headers["Cache-Control"] == "public, max-age=300"
            assert {one["protocolBinding"]: one["url"] for one in card["supportedInterfaces"]} == {
                "JSONRPC": f"http://{node.http}/a2a/jsonrpc",
                "HTTP+JSON": f"http://{node.http}/a2a",
                "GRPC": node.grpc,
            }
            assert {one["protocolVersion"] for one in card["supportedInterfaces"]} == {"1.0"}
            given = {"If-None-Match": tag}
            async with session.get(f"http://{node.http}{path}", headers=given) as answer:
                assert answer.status == 304
        async with session.get(f"http://{node.http}/x/.well-known/agent-card.json") as answer:
            assert answer.status == 404


class Hook:
    """A client's webhook; it fails as often as it is told to."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[dict[str, str], Any]] = asyncio.Queue()
        self.failures = 0

    async def take(self, request: web.Request) -> web.Response:
        if self.failures:
            self.failures -= 1
            return web.Response(status=503)
        self.heard.put_nowait((dict(request.headers), await request.json()))
        return web.Response(status=204)


async def test_a_webhook_hears_of_the_end_with_its_credentials(node: Node) -> None:
    hook = Hook()
    site = await HttpServer.start("127.0.0.1:0", [web.post("/hook", hook.take)])
    try:
        client = await node.client("rest")
        request = message("tck-artifact-text")
        request.configuration.task_push_notification_config.CopyFrom(
            pb.TaskPushNotificationConfig(
                url=f"http://{site.address}/hook",
                token="t0ken",
                authentication=pb.AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
            )
        )
        task = (await client.send_message(request, context=context())).task
        headers, body = await asyncio.wait_for(hook.heard.get(), 60)
        assert headers["Authorization"] == "Bearer s3cret"
        assert headers["X-A2A-Notification-Token"] == "t0ken"
        assert body["task"]["id"] == task.id
        assert body["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    finally:
        await site.stop()


async def test_configurations_are_kept_replaced_and_forgotten(node: Node) -> None:
    client = await node.client("jsonrpc")
    task = (await client.send_message(message("tck-input-required"), context=context())).task
    config = pb.TaskPushNotificationConfig(task_id=task.id, id="mine", url="http://127.0.0.1:9/a")
    assert (await client.create_task_push_notification_config(config, context=context())).id == "mine"
    config.url = "http://127.0.0.1:9/b"
    await client.create_task_push_notification_config(config, context=context())
    listing = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
    kept = (await client.list_task_push_notification_configs(listing, context=context())).configs
    assert [(one.id, one.url) for one in kept] == [("mine", "http://127.0.0.1:9/b")]
    gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
    for _ in range(2):
        await client.delete_task_push_notification_config(gone, context=context())
    assert not (await client.list_task_push_notification_configs(listing, context=context())).configs


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook",
        "https://127.0.0.1/hook",
        "https://[::1]/hook",
        "https://10.1.2.3/hook",
        "https://169.254.169.254/latest",
        "https://localhost/hook",
        "https://user:secret@1.1.1.1/hook",
        "ftp://1.1.1.1/hook",
        "https:///hook",
        "https://1.1.1.1:99999/",
    ],
)
async def test_a_webhook_that_is_not_public_is_refused(node: Node, url: str) -> None:
    strict = PushConfigs(node.push._pool, node.push._seal, node.push._unseal, list)
    with pytest.raises(Exception, match=r"address|host|public"):
        await strict.check(pb.TaskPushNotificationConfig(url=url))


@pytest.mark.parametrize("turns", range(5))  # of the loop, after what was told
async def test_who_stops_in_the_moment_when_there_is_something_to_send_stops(node: Node, turns: int) -> None:
    push = PushConfigs(node.push._pool, node.push._seal, node.push._unseal, list)
    async with asyncio.timeout(20):
        async with push:
            while not push._due._waiters:
                await asyncio.sleep(0.01)
            push._due.set()
            for _ in range(turns):
                await asyncio.sleep(0)
        assert [task.cancelled() for task in push._tasks] == [True]
