"""`indai tenant|persona|team|agent|binding`: configurations in versions."""

from __future__ import annotations

import difflib
from typing import IO, Any

import click
from indai.cli.concierge import COMMANDS as CONCIERGES
from indai.cli.framework import SETTINGS, command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.proposals import COMMANDS as PROPOSALS
from indai.cli.session import tier_session
from indai.runtime.tiers import catalogue as shipped
from indai.v1 import tiers_pb2 as pb

KINDS = {"tenant": "tenant", "persona": "human", "team": "team", "agent": "agent", "binding": "binding"}

_tenant_option = click.option("--tenant", metavar="SLUG", default="", help="Whose (not for tenants).")


def _group(name: str) -> click.Group:
    """The commands of one kind. `apply` takes any kinds: what belongs together is stored together."""
    kind = KINDS[name]
    example = "--tenant acme" if name != "tenant" else ""
    group = click.Group(name, help=f"Configure {name}s, in versions.", context_settings=SETTINGS)

    @command("apply", f"indai {name} apply - --tenant acme --dry-run")
    @click.argument("file", type=click.File(encoding="utf-8"))
    @_tenant_option
    @click.option("--note", metavar="TEXT", default="", help="Why; kept with the version.")
    @click.option("--dry-run", is_flag=True, help="Check only.")
    @data_option
    def apply(home: Home, file: IO[str], tenant: str, note: str, dry_run: bool) -> None:
        """Store the configurations of FILE (- for standard input), all or none."""
        request = pb.ApplyTiersRequest(tenant=tenant, yaml=file.read(), note=note, dry_run=dry_run)
        answer = run(_call(home, "ApplyTiers", request))
        emit(
            {"changed": [_json(each) for each in answer.changed], "unchanged": answer.unchanged},
            lambda page: _show_applied(page, answer, dry_run=dry_run),
        )

    @command("list", f"indai {name} list {example}".rstrip())
    @_tenant_option
    @data_option
    def listing(home: Home, tenant: str) -> None:
        """What there is, at its newest version."""
        tiers = run(_all(home, tenant if kind != "tenant" else "", kind))
        emit({"tiers": [_json(each) for each in tiers]}, lambda page: _show_list(page, name, tiers))

    @command("show", f"indai {name} show acme {example}".rstrip())
    @click.argument("slug")
    @click.option("--version", type=int, default=0, metavar="N", help="An older one.")
    @_tenant_option
    @data_option
    def show(home: Home, slug: str, version: int, tenant: str) -> None:
        """One configuration, as YAML that `apply` takes."""
        tier = run(_get(home, tenant, kind, slug, version))
        emit(_json(tier), lambda page: page.raw(f"kind: {kind}\nslug: {slug}\n{tier.config_yaml}".rstrip()))

    @command("versions", f"indai {name} versions acme {example}".rstrip())
    @click.argument("slug")
    @_tenant_option
    @data_option
    def versions(home: Home, slug: str, tenant: str) -> None:
        """All versions, newest first."""
        request = pb.ListTierVersionsRequest(tenant=tenant, kind=kind, slug=slug, page_size=500)
        found = run(_call(home, "ListTierVersions", request)).versions
        emit({"versions": [_json(each) for each in found]}, lambda page: _show_versions(page, found))

    @command("diff", f"indai {name} diff acme 1 2 {example}".rstrip())
    @click.argument("slug")
    @click.argument("old", type=int)
    @click.argument("new", type=int, default=0)
    @_tenant_option
    @data_option
    def diff(home: Home, slug: str, old: int, new: int, tenant: str) -> None:
        """What changed from version OLD to NEW (or to the newest)."""
        before = run(_get(home, tenant, kind, slug, old))
        after = run(_get(home, tenant, kind, slug, new))
        lines = list(
            difflib.unified_diff(
                before.config_yaml.splitlines(),
                after.config_yaml.splitlines(),
                f"{slug} version {before.version}",
                f"{slug} version {after.version}",
                lineterm="",
            )
        )
        emit({"diff": lines}, lambda page: page.raw("\n".join(lines) or "Nothing changed."))

    @command("restore", f"indai {name} restore acme 1 {example}".rstrip())
    @click.argument("slug")
    @click.argument("version", type=int)
    @_tenant_option
    @data_option
    def restore(home: Home, slug: str, version: int, tenant: str) -> None:
        """Make an older version the newest again."""
        request = pb.RestoreTierRequest(tenant=tenant, kind=kind, slug=slug, version=version)
        tier = run(_call(home, "RestoreTier", request)).tier
        emit(_json(tier), lambda page: page.line(f"{slug} is at version {tier.version} now.", "green"))

    for each in (apply, listing, show, versions, diff, restore):
        group.add_command(each)
    if name == "binding":
        group.add_command(prompt)
        group.add_command(catalogue)
    for each in {"persona": PROPOSALS, "agent": CONCIERGES}.get(name, ()):
        group.add_command(each)
    return group


@command("catalogue", "indai binding catalogue")
def catalogue() -> None:
    """The agents that come with the program, as YAML that `apply` takes."""
    emit({"yaml": shipped()}, lambda page: page.raw(shipped()))


@command("prompt", "indai binding prompt sahayak-personal --tenant ind")
@click.argument("slug")
@_tenant_option
@data_option
def prompt(home: Home, slug: str, tenant: str) -> None:
    """What every turn of a binding begins with, with its tokens."""
    answer = run(_call(home, "PreviewPrompt", pb.PreviewPromptRequest(tenant=tenant, binding=slug)))
    parts = [
        {"tier": part.tier, "tokens": part.tokens, "allotted": part.allotted, "text": part.text}
        for part in answer.parts
    ]
    value = {"parts": parts, "tools": list(answer.tools), "guardrails": list(answer.guardrails)}
    emit(value, lambda page: _show_prompt(page, answer))


async def _call(home: Home, method: str, request: Any) -> Any:
    async with tier_session(home) as stub:
        return await getattr(stub, method)(request)


async def _get(home: Home, tenant: str, kind: str, slug: str, version: int) -> pb.Tier:
    request = pb.GetTierRequest(tenant=tenant, kind=kind, slug=slug, version=version)
    tier: pb.Tier = (await _call(home, "GetTier", request)).tier
    return tier


async def _all(home: Home, tenant: str, kind: str) -> list[pb.Tier]:
    found: list[pb.Tier] = []
    token = ""
    async with tier_session(home) as stub:
        while True:
            request = pb.ListTiersRequest(tenant=tenant, kind=kind, page_size=500, page_token=token)
            answer = await stub.ListTiers(request)
            found += answer.tiers
            token = answer.next_page_token
            if not token:
                return found


def _json(tier: pb.Tier) -> dict[str, Any]:
    value: dict[str, Any] = {
        "tenant": tier.tenant,
        "kind": tier.kind,
        "slug": tier.slug,
        "version": tier.version,
    }
    return value | ({"config": tier.config_yaml} if tier.config_yaml else {})


def _show_applied(page: Page, answer: pb.ApplyTiersResponse, *, dry_run: bool) -> None:
    would = "would be" if dry_run else "is"
    for each in answer.changed:
        page.line(f"{each.kind} {each.slug} {would} at version {each.version}", "green")
    if answer.unchanged:
        page.line(f"{answer.unchanged} as before", "dim")


def _show_list(page: Page, name: str, tiers: list[pb.Tier]) -> None:
    if not tiers:
        page.line(f"There is no {name} yet.")
        page.next_step(f"indai {name} apply FILE")
    page.fields([(each.slug, f"version {each.version}") for each in tiers])


def _show_versions(page: Page, found: list[pb.Tier]) -> None:
    for each in found:
        when = each.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M")
        page.line(f"{each.version:>4}  {when}  {each.created_by}  {each.note}".rstrip())


def _show_prompt(page: Page, answer: pb.PreviewPromptResponse) -> None:
    for part in answer.parts:
        page.line(f"{part.tier}  {part.tokens} of {part.allotted} tokens", "bold")
        page.raw(part.text)
        page.line("")
    page.fields([("tools", ", ".join(answer.tools)), ("guardrails", ", ".join(answer.guardrails))])


tenant, persona, team, agent, binding = (_group(name) for name in KINDS)
