"""What became of a call, made from what a tool answered or raised. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from indai.language.phrasebook import bound, in_language
from indai.protocol.errors import IndaiError
from indai.tools import words
from indai.tools.approvals import Asked
from indai.tools.files import attached
from indai.tools.identity import refuse_aadhaar
from indai.tools.normalise import Money, fields_of
from indai.tools.schemas import MAX_RESULT, misfit, too_large, without_secrets
from indai.tools.values import Approval, Caller, Outcome, Spec, Status
from jsonschema import Draft202012Validator

# A tool that answers with one of these does not work; any other error is an answer about the request.
_FAULTY: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "DATA_LOSS"})
MOST_SAID: Final = 6
DECLINED: Final = "It was declined; nothing has happened."
_SPOKEN: Final = {
    "agreed": "Agreed with {who}",
    "refused": "{who} did not agree",
    "declined": "You said no, so nothing was agreed with {who}",
    "waiting": "{who} is still being asked",
    "cancelled": "Called off with {who}",
    "expired": "It ran out of time with {who}",
}
_TRANSIENT: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "RESOURCE_EXHAUSTED"})


@dataclass(frozen=True, slots=True)
class Judged:
    """An outcome, and whether it counts against the tool."""

    outcome: Outcome

    @property
    def faulty(self) -> bool:
        """See `Outcome`."""
        return self.outcome.faulty


def failed(code: str, words: str, *, retryable: bool = False) -> Outcome:
    """Nothing has happened, or nothing that is known."""
    return Outcome(Status.FAILED, words, code=code, retryable=retryable)


def raised(error: IndaiError) -> Judged:
    """An error of ours. Its message is one sentence for the person; its hint is for a command line."""
    code = error.metadata.get("code", error.reason.name)
    grpc = error.reason.status.grpc
    outcome = failed(code, error.message, retryable=grpc in _TRANSIENT)
    return Judged(replace(outcome, faulty=grpc in _FAULTY))


def broken(code: str, words: str, *, retryable: bool = False) -> Judged:
    """The tool does not work."""
    return Judged(replace(failed(code, words, retryable=retryable), faulty=True))


def identity_number(value: Any, what: str) -> Outcome | None:
    """The refusal of plain data that holds an Aadhaar number; the number is not in it."""
    try:
        refuse_aadhaar(value, what)
    except IndaiError as error:
        return failed("IDENTITY_NUMBER", error.message)
    return None


def judged(caller: Caller, spec: Spec, validator: Draft202012Validator, result: Any, money: Money) -> Judged:
    """What a tool answered: checked for size, identity numbers and its schema, then put in words."""
    if too_large(result, MAX_RESULT):
        return broken("RESULT_TOO_LARGE", f"{spec.name} answered with too much.")
    if outcome := identity_number(result, f"The answer of {spec.name}"):
        return Judged(outcome)
    if problem := misfit(validator, result):
        return broken("BAD_RESULT", f"{spec.name} answered with something that cannot be read ({problem}).")
    outcome = Outcome(
        Status.DONE,
        str(result.get("summary", "")),
        fields_of(spec, result, caller.time_zone, money),
        result,
        thread=str(result.get("thread_id", "")),
        kept=without_secrets(spec.result, result),
        files=attached(result) if spec.files else (),
    )
    return Judged(_waiting(outcome, result))


def declined(asked: Asked) -> Outcome:
    """What whoever asked hears of a no that was said elsewhere. What was asked is between the owner and this
    node: anybody else hears that it was declined, and not what."""
    own = asked.caller.person == asked.caller.owner
    terms = f"\n{asked.approval.terms.splitlines()[0]}" if own and asked.approval.terms else ""
    return Outcome(Status.DONE, f"{DECLINED}{terms}", code="DECLINED")


def as_kept(kept: Mapping[str, Any]) -> Outcome:
    """An outcome as `dumped` stored it."""
    result = kept["result"]
    return Outcome(
        Status(kept["status"]),
        kept["words"],
        result=result,
        code=kept["code"],
        thread=kept["thread"],
        files=attached(result),
    )


def about_thread(result: Mapping[str, Any]) -> Outcome:
    """How a negotiation stands that the owner has answered, with the files that come of it."""
    thread = str(result.get("thread_id", ""))
    return _waiting(Outcome(Status.DONE, result=result, thread=thread, files=attached(result)), result)


def _waiting(outcome: Outcome, result: Mapping[str, Any]) -> Outcome:
    if asked := result.get("approval"):
        approval = Approval(asked["code"], asked["action_hash"], asked["terms"], asked["expires_ms"])
        return replace(outcome, status=Status.NEEDS_APPROVAL, approval=approval)
    if result.get("running"):
        return replace(outcome, status=Status.RUNNING)
    return outcome


def sentence(outcome: Outcome, language: str = "en") -> str:
    """What is said of an outcome without a model: its own words, what it asks, or its most important
    fields."""
    if outcome.words:
        return in_language(outcome.words, language)
    if outcome.status is Status.NEEDS_APPROVAL and outcome.approval is not None:
        return question("", outcome.approval, language)
    said = outcome.result
    if (form := _SPOKEN.get(str(said.get("state", "")))) and said.get("with"):
        more = [in_language(str(said["when"]), language)] if said.get("when") else []
        if said.get("reason") and said["state"] != "declined":
            more.append(words.said(str(said["reason"]), language))
        told = words.said(form, language, who=str(said["with"]))
        stop = "।" if language == "hi" else "."
        link = f" {said['pay_link']}" if said.get("pay_link") else ""
        return f"{told}{': ' if more else ''}{', '.join(more)}{stop}{link}"
    weight = max((each.importance for each in outcome.fields), default=0)
    shown = [each for each in outcome.fields if each.importance == weight]
    return "\n".join(f"{each.label}: {each.text}" for each in shown[:MOST_SAID]) or words.said(
        "It is done.", language
    )


def question(why: str, approval: Approval, language: str = "en") -> str:
    """What the owner is asked, and how to answer, for any channel. The terms are as they will be bound."""
    how = words.said("Answer “yes {code}” or “no {code}”.", language, code=approval.code)
    said = [words.said(why, language)] if why else []
    return "\n".join([*said, bound(approval.terms, language), how])


def dumped(outcome: Outcome) -> dict[str, Any]:
    """An outcome as it is stored: without what is secret in it."""
    return {
        "status": outcome.status.value,
        "words": outcome.words,
        "result": dict(outcome.result if outcome.kept is None else outcome.kept),
        "code": outcome.code,
        "retryable": outcome.retryable,
        "thread": outcome.thread,
    }
