"""The owner's own yes, asked for at their host by MCP elicitation.

The question reaches the person through the host's form and never through the model: it shows the exact terms
and a short code, and the person types that code. On protocol 2026-07-28 the SDK binds the answer to the very
question that was shown, in sealed state; an answer to another question, or to none, asks again. A host
without forms gets the command that the owner runs themselves.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from indai.mcp.session import Ctx
from indai.mcp.values import quoted
from mcp.server.mcpserver import AcceptedElicitation, DeclinedElicitation, Elicit, ElicitationResult
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

CODE_LENGTH = 8


class TypedCode(BaseModel):
    """The form that the owner fills in."""

    code: str = Field(title="Code", description="To say yes, type the code shown above.", max_length=64)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the owner is asked: what would be done, its terms, the code, the command that does the same."""

    what: str
    terms: str
    code: str
    command: str


@dataclass(frozen=True, slots=True)
class NobodyThere:
    """The host has no way to ask a person."""


@dataclass(frozen=True, slots=True)
class NotNeeded:
    """The owner has said beforehand that they need not be asked."""


Question = Elicit[TypedCode] | NobodyThere | NotNeeded


def code_of(what: str, terms: str) -> str:
    """The short code of terms that have no hash of their own yet."""
    return hashlib.sha256(f"{what}\n{terms}".encode()).hexdigest()[:CODE_LENGTH]


def question(asked: Asked, ctx: Ctx) -> Elicit[TypedCode] | NobodyThere:
    """What the host shows. Lines of the terms are marked: a peer's words can't pass for the node's."""
    if not has_forms(ctx):
        return NobodyThere()
    lines = quoted(asked.terms, "").text.splitlines()
    shown = "\n".join(f"| {line}" for line in lines)
    return Elicit(f"{asked.what}\n\n{shown}\n\nTo say yes, type the code: {asked.code}", TypedCode)


def has_forms(ctx: Ctx) -> bool:
    """True when the host can show a form to a person."""
    capabilities = ctx.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # A capability without a mode means forms, as before modes existed.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def require(answer: ElicitationResult[TypedCode], asked: Asked) -> None:
    """Raises ToolError unless the owner has said yes to `asked`."""
    if not isinstance(answer, AcceptedElicitation):
        no = "said no" if isinstance(answer, DeclinedElicitation) else "did not answer"
        raise ToolError(f"The owner {no}; nothing was done. Don't ask again unless the owner wants it.")
    said: object = answer.data
    if isinstance(said, NotNeeded):
        return
    if isinstance(said, TypedCode) and said.code.strip().lower() == asked.code.lower():
        return
    if isinstance(said, NobodyThere):
        do = (
            f"tell the owner to run: {asked.command}"
            if asked.command
            else "use a host with forms (elicitation)"
        )
        raise ToolError(
            f"This needs the owner's own yes, and this host can't ask; nothing was done. Next: {do}"
        )
    raise ToolError("The code that was typed is not the one shown; nothing was done. Next: try again.")
