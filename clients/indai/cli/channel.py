"""`indai channel`: numbers, bots and workspaces by which people reach agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from google.protobuf.timestamp_pb2 import Timestamp
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.session import channel_session
from indai.v1 import channels_pb2 as pb

_HERE = "indai.cli.channel:"
PROVIDERS = ("whatsapp-cloud", "gupshup", "telegram", "slack")
SECTIONS = {
    "Set up": {
        "add": _HERE + "add",
        "list": _HERE + "listing",
        "test": _HERE + "test",
        "remove": _HERE + "remove",
    },
    "Watch": {
        "status": _HERE + "status",
        "dead": _HERE + "dead",
        "replay": _HERE + "replay",
    },
}


@click.command("channel", cls=Group, sections=SECTIONS)
def channel() -> None:
    """Let people reach agents by WhatsApp, Telegram and Slack.

    Secrets are stored first (indai secret set NAME) and named by reference.
    The process needs the role edge, and an HTTP port that the provider can
    reach.
    """


@command(
    "add",
    "indai channel add telegram support --account acme_bot --set bot_token=vault:bot"
    " --set webhook_secret=vault:hook",
)
@click.argument("provider", type=click.Choice(PROVIDERS))
@click.argument("name")
@click.option("--account", required=True, metavar="WHICH", help="The number, bot or workspace.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting; several may be given."
)
@click.option("--tenant", metavar="SLUG", default="", help="Whose (default: personal).")
@data_option
def add(home: Home, provider: str, name: str, account: str, settings: Sequence[str], tenant: str) -> None:
    """Store the channel NAME, in place of the one before."""
    pairs = {}
    for setting in settings:
        key, given, value = setting.partition("=")
        if not given:
            raise wrong(f"{setting} is no setting.", "write it as --set KEY=VALUE")
        pairs[key] = value
    wanted = pb.Channel(name=name, tenant=tenant, provider=provider, account=account, settings=pairs)
    answer = run(_call(home, "PutChannel", pb.PutChannelRequest(channel=wanted)))

    def show(page: Page) -> None:
        page.line(f"{name} is stored.", "green")
        page.fields([("webhook", answer.channel.webhook_url)])
        for number, step in enumerate(answer.steps, start=1):
            page.item(f"{number}.", step)
        page.next_step(f"indai channel test {name}")

    emit({"channel": _json(answer.channel), "steps": list(answer.steps)}, show)


@command("list", "indai channel list")
@click.option("--tenant", metavar="SLUG", default="", help="Of one tenant only.")
@data_option
def listing(home: Home, tenant: str) -> None:
    """List the channels."""
    channels = run(_all(home, tenant))

    def show(page: Page) -> None:
        if not channels:
            page.line("There is no channel yet.")
            page.next_step("indai channel add --help")
            return
        rows = [(each.name, each.provider, each.account, each.trouble or "well") for each in channels]
        page.table(("name", "kind", "account", "state"), rows, {"well": "green"})

    emit({"channels": [_json(each) for each in channels]}, show)


@command("test", "indai channel test support", "indai channel test support --to +919876543210")
@click.argument("name")
@click.option("--to", "recipient", metavar="WHO", default="", help="Send them a few words.")
@data_option
def test(home: Home, name: str, recipient: str) -> None:
    """Ask the provider whether the credentials are good, and all else that it tells.

    What is wrong (scopes that are missing, an address elsewhere, a secret of
    another app) comes with what to do. Telegram is told the webhook's address
    as well.
    """
    answer = run(_call(home, "TestChannel", pb.TestChannelRequest(name=name, recipient=recipient)))

    def show(page: Page) -> None:
        if not answer.accepted:
            page.line(f"The provider refuses the channel: {answer.reason}.", "red")
            _findings(page, answer.findings)
            return
        page.line("The provider accepts the credentials.", "green")
        if answer.webhook_set:
            page.line("It knows the webhook's address now.")
        elif answer.reason:
            page.line(f"It does not take the webhook's address: {answer.reason}.", "yellow")
        _findings(page, answer.findings)
        if answer.queued:
            page.line("The words are on their way.")
            page.next_step(f"indai channel status {name}")

    value = {
        "accepted": answer.accepted,
        "reason": answer.reason,
        "webhook_set": answer.webhook_set,
        "queued": answer.queued,
        "findings": [
            {"reason": each.reason, "words": each.words, "hint": each.hint, "grave": each.grave}
            for each in answer.findings
        ],
    }
    emit(value, show)
    if not answer.accepted:
        raise click.exceptions.Exit(3)


@command("status", "indai channel status support", "indai channel status support --to +919876543210")
@click.argument("name")
@click.option("--to", "recipient", metavar="WHO", default="", help="Show the window of this person.")
@data_option
def status(home: Home, name: str, recipient: str) -> None:
    """Show a channel's queues, its trouble, and somebody's window."""
    answer = run(_call(home, "GetChannelStatus", pb.GetChannelStatusRequest(name=name, recipient=recipient)))

    def show(page: Page) -> None:
        page.fields(
            [
                ("state", answer.channel.trouble or "well"),
                ("meaning", answer.channel.trouble_words),
                ("since", _stamp(answer.channel.trouble_time)),
                ("to answer", str(answer.unread)),
                ("to send", str(answer.waiting)),
                ("oldest", _stamp(answer.oldest_waiting_time)),
                ("dead", str(answer.dead)),
                ("last in", _stamp(answer.last_in_time)),
                ("last out", _stamp(answer.last_out_time)),
                ("window", f"{answer.window_hours} hours" if answer.window_hours else "always open"),
                ("closes", _stamp(answer.window_end_time)),
                ("webhook", answer.channel.webhook_url),
                (
                    "refused",
                    f"{answer.refused}, last {_stamp(answer.last_refused_time)}" if answer.refused else "",
                ),
            ]
        )
        if answer.dead:
            page.next_step(f"indai channel dead {name}")

    value = {
        "channel": _json(answer.channel),
        "unread": answer.unread,
        "waiting": answer.waiting,
        "dead": answer.dead,
        "oldest_waiting": _stamp(answer.oldest_waiting_time),
        "last_in": _stamp(answer.last_in_time),
        "last_out": _stamp(answer.last_out_time),
        "window_hours": answer.window_hours,
        "window_end": _stamp(answer.window_end_time),
        "refused": answer.refused,
        "last_refused": _stamp(answer.last_refused_time),
    }
    emit(value, show)


@command("remove", "indai channel remove support")
@click.argument("name")
@data_option
def remove(home: Home, name: str) -> None:
    """Remove a channel, with all that waits there."""
    run(_call(home, "RemoveChannel", pb.RemoveChannelRequest(name=name)))
    emit({"removed": name}, lambda page: page.line(f"{name} is removed.", "green"))


@command("dead", "indai channel dead support")
@click.argument("name")
@data_option
def dead(home: Home, name: str) -> None:
    """List the messages that could not be sent."""
    letters = run(_dead(home, name))

    def show(page: Page) -> None:
        if not letters:
            page.line("Every message was sent, or still waits.")
            return
        page.table(
            ("letter", "reason", "tried", "words"),
            [(str(each.letter_id), each.reason, str(each.attempts), each.words) for each in letters],
        )
        for reason, words in {
            each.reason: each.reason_words for each in letters if each.reason_words
        }.items():
            page.item(f"{reason}:", words)
        page.next_step(f"indai channel replay {name}")

    rows = [
        {
            "letter": each.letter_id,
            "reason": each.reason,
            "attempts": each.attempts,
            "created": _stamp(each.create_time),
            "words": each.words,
            "meaning": each.reason_words,
        }
        for each in letters
    ]
    emit({"letters": rows}, show)


@command("replay", "indai channel replay support", "indai channel replay support 17 18")
@click.argument("name")
@click.argument("letters", type=click.IntRange(min=1), nargs=-1)
@data_option
def replay(home: Home, name: str, letters: Sequence[int]) -> None:
    """Send dead letters again: those that are named, or all."""
    request = pb.ReplayDeadLettersRequest(name=name, letter_ids=letters)
    count = run(_call(home, "ReplayDeadLetters", request)).replayed
    emit({"replayed": count}, lambda page: page.line(f"{count} wait to be sent again.", "green"))


def _findings(page: Page, findings: Sequence[pb.ChannelFinding]) -> None:
    """What a test has found, with what to do."""
    for each in findings:
        if each.words:
            page.line(each.words, "red" if each.grave else "yellow")
        if each.hint:
            page.line(each.hint, indent=2)


async def _call(home: Home, method: str, request: Any) -> Any:
    async with channel_session(home) as stub:
        return await getattr(stub, method)(request)


async def _all(home: Home, tenant: str) -> list[pb.Channel]:
    found: list[pb.Channel] = []
    token = ""
    async with channel_session(home) as stub:
        while True:
            request = pb.ListChannelsRequest(tenant=tenant, page_size=200, page_token=token)
            answer = await stub.ListChannels(request)
            found += answer.channels
            token = answer.next_page_token
            if not token:
                return found


async def _dead(home: Home, name: str) -> list[pb.DeadLetter]:
    found: list[pb.DeadLetter] = []
    token = ""
    async with channel_session(home) as stub:
        while True:
            request = pb.ListDeadLettersRequest(name=name, page_size=200, page_token=token)
            answer = await stub.ListDeadLetters(request)
            found += answer.letters
            token = answer.next_page_token
            if not token:
                return found


def _json(each: pb.Channel) -> dict[str, Any]:
    return {
        "name": each.name,
        "tenant": each.tenant,
        "kind": each.provider,
        "account": each.account,
        "settings": dict(each.settings),
        "webhook": each.webhook_url,
        "trouble": each.trouble,
        "meaning": each.trouble_words,
    }


def _stamp(stamp: Timestamp) -> str:
    """A time, or nothing for none."""
    return stamp.ToDatetime().strftime("%Y-%m-%dT%H:%M:%SZ") if stamp.seconds else ""
