"""`indai policy templates`: policies to begin with."""

from __future__ import annotations

from pathlib import Path

import click
from indai.cli.errors import file_error, wrong
from indai.cli.framework import Group, command
from indai.cli.output import Page, emit
from indai.policy.compiled import OWNER
from indai.policy.language import parse
from indai.policy.sentences import sentences
from indai.policy.templates import fill, template, templates

_HERE = "indai.cli.policy_templates:"
SECTIONS = {
    "Commands": {
        "list": _HERE + "list_templates",
        "show": _HERE + "show_template",
        "apply": _HERE + "apply_template",
    }
}


@click.group("templates", cls=Group, sections=SECTIONS)
def policy_templates() -> None:
    """Policies to begin with: for a person, a shop, a clinic and others."""


@command("list", "indai policy templates list")
def list_templates() -> None:
    """List the templates."""
    found = templates()
    emit(
        {
            "templates": [
                {"name": one.name, "title": one.title, "description": one.words, "layer": one.layer}
                for one in found
            ]
        },
        lambda page: page.table(("name", "for"), [(one.name, one.title) for one in found]),
    )


@command("show", "indai policy templates show personal")
@click.argument("name")
def show_template(name: str) -> None:
    """Show a template: what it does, its rules in words, and its text."""
    one = template(name)
    rules = sentences(parse(one.text, one.layer))

    def show(page: Page) -> None:
        page.line(one.title, "bold")
        page.line(one.words)
        for rule in rules:
            page.line(rule, indent=2)
        page.line()
        page.raw(one.text)
        page.next_step(f"indai policy templates apply {name} {name}.yaml")

    emit({"name": name, "title": one.title, "description": one.words, "rules": rules, "yaml": one.text}, show)


@command("apply", "indai policy templates apply personal alice.yaml --timezone Asia/Kolkata --currency INR")
@click.argument("name")
@click.argument("file")
@click.option("--timezone", metavar="ZONE", default="", help="Yours, such as Asia/Kolkata.")
@click.option("--currency", metavar="CODE", default="", help="Yours, such as INR or EUR.")
def apply_template(name: str, file: str, timezone: str, currency: str) -> None:
    """Write a template into FILE, to be filled in and set. An existing file is not touched."""
    one = template(name)
    text = fill(one, timezone, currency)
    try:
        with Path(file).open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise wrong(f"{file} exists already.", "give another name") from None
    except OSError as error:
        raise file_error(error) from None
    empty = [name for name, handles in parse(text, one.layer).circles.items() if not handles]

    def show(page: Page) -> None:
        page.line(f"{file} is there.", "green")
        if empty:
            page.line(f"Fill in who they are: {', '.join(empty)}.")
        layer = "" if one.layer == OWNER else f" --layer {one.layer} --scope acme.com"
        page.next_step(f"indai policy lint {file}", f"indai policy set {file}{layer}")

    emit({"file": file, "template": name, "circles_to_fill": empty}, show)
