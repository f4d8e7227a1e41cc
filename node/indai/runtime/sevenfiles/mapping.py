"""The seven files of a concierge as a human, a team, an agent and a binding of one name. Pure.

    agents -> binding         identity -> HUMAN's name, identity and voice
    soul's voice -> HUMAN     soul's rules -> TEAM
    tools -> AGENT's tools    memory -> memory policy      user, heartbeat -> the prompt's dynamic part

A rule that begins with the name of a check (`no_discount: Never offer one.`) is a guardrail that code checks;
any other is a step that the team always takes.
"""

from __future__ import annotations

import re
from typing import Any, Final, get_args

import yaml
from indai.runtime.sevenfiles.reading import SevenFiles, pairs, sections, tools, wrong
from indai.runtime.tiers import Guardrail, Kind, parse

_BINDING: Final = ("door", "channels", "routing_keys", "region")
_AGENTS: Final = (*_BINDING, "department", "formality", "model_class", "extends", "autonomy")
_MANY: Final = ("channels", "routing_keys")
_CHECKS: Final = frozenset(get_args(Guardrail.model_fields["check"].annotation)) - {
    # These need more than words.
    *("pattern", "persona_lock", "no_impersonation", "blocked_topic"),
}
_CHECKED: Final = re.compile(
    r"(?P<check>[a-z]+(?:_[a-z]+)+)(?:\((?P<severity>block|rewrite|log)\))? *: *(?P<words>.+)"
)


def tiers_of(files: SevenFiles, slug: str) -> str:
    """YAML that `apply` takes. Raises InvalidInput that names the file and what is wrong in it."""
    placed, role = _agents(files.texts["agents"])
    used = tools(files.texts["tools"])
    documents: list[tuple[Kind, dict[str, Any]]] = [
        (Kind.HUMAN, _human(files)),
        (Kind.TEAM, _team(files, placed, role)),
        (
            Kind.AGENT,
            {
                "name": _name(files),
                **{key: placed[key] for key in ("extends", "model_class", "autonomy") if key in placed},
                "tools": [each.name for each in used],
                "uses": {each.name: {"arguments": list(each.arguments), "when": each.when} for each in used},
                **_memory(files.texts["memory"]),
                "person": files.texts["user"].strip(),
                "moment": files.texts["heartbeat"].strip(),
            },
        ),
        (
            Kind.BINDING,
            {
                **dict.fromkeys(("human", "team", "agent"), slug),
                **{key: placed[key] for key in _BINDING if key in placed},
            },
        ),
    ]
    for kind, value in documents:
        parse(kind, value, f"the {kind.value} of these files")
    return "---\n".join(
        yaml.safe_dump(
            {"kind": kind.value, "slug": slug, **value}, sort_keys=False, allow_unicode=True, width=100
        )
        for kind, value in documents
    )


def _agents(text: str) -> tuple[dict[str, Any], str]:
    """The keys, and what the concierge is for."""
    section = sections(text, "agents.md", ())[""]
    found, rest = pairs(section.lines, "agents.md", _AGENTS)
    for key in ("door", "channels"):
        if key not in found:
            raise wrong(f"agents.md has no {key}", f"add a line: - {key}: …")
    role = " ".join(filter(None, rest))
    if not role:
        raise wrong("agents.md does not say what the concierge is for")
    return {key: _list(values) if key in _MANY else _one(values, key) for key, values in found.items()}, role


def _name(files: SevenFiles) -> str:
    name = sections(files.texts["identity"], "identity.md", ("voice",))[""].top
    if not name:
        raise wrong("identity.md has no name", "begin with a line: # Name")
    return name


def _human(files: SevenFiles) -> dict[str, Any]:
    said = sections(files.texts["identity"], "identity.md", ("voice",))
    found, rest = pairs(said[""].lines, "identity.md", ("languages", "mixes", "formality"))
    identity = " ".join(filter(None, rest))
    if not identity or "voice" not in said or not said["voice"].text:
        raise wrong("identity.md says who it is, and under ## Voice how that sounds")
    if "languages" not in found:
        raise wrong("identity.md has no languages", "add a line: - languages: en, hi")
    soul = sections(files.texts["soul"], "soul.md", ("voice", "rules"))
    voice, loose = pairs(
        soul["voice"].lines if "voice" in soul else (), "soul.md", ("say", "avoid", "never", "emoji")
    )
    if text := " ".join(filter(None, loose)):
        raise wrong(f"soul.md has a line that is none of its voice: {text[:60]}", "write: - avoid: flattery")
    return {
        "name": _name(files),
        "identity": identity,
        "voice": {
            "tone": said["voice"].text,
            **({"phrases": voice["say"]} if "say" in voice else {}),
            **({"avoid": voice["avoid"]} if "avoid" in voice else {}),
            **({"emoji": _yes(_one(voice["emoji"], "emoji"))} if "emoji" in voice else {}),
        },
        "languages": _list(found["languages"]),
        **({"mixes": _list(found["mixes"])} if "mixes" in found else {}),
        **({"formality": _one(found["formality"], "formality")} if "formality" in found else {}),
        **({"never": voice["never"]} if "never" in voice else {}),
    }


def _team(files: SevenFiles, placed: dict[str, Any], role: str) -> dict[str, Any]:
    soul = sections(files.texts["soul"], "soul.md", ("voice", "rules"))
    before = soul[""].text
    guardrails, steps = [], []
    for line in soul["rules"].lines if "rules" in soul else ():
        if not line:
            continue
        if not line.startswith(("- ", "* ")):
            raise wrong(f"soul.md has a line that is no rule: {line[:60]}", "write: - one rule a line")
        rule = line[2:].strip()
        checked = _CHECKED.fullmatch(rule)
        if checked is None:
            steps.append(rule)
        elif checked["check"] not in _CHECKS:
            raise wrong(
                f"soul.md names no check {checked['check']}", f"checks are {', '.join(sorted(_CHECKS))}"
            )
        else:
            guardrails.append(
                {
                    "id": checked["check"].replace("_", "-"),
                    "check": checked["check"],
                    **({"severity": checked["severity"]} if checked["severity"] else {}),
                    "words": checked["words"],
                }
            )
    if before:
        raise wrong(f"soul.md has a line in no section: {before[:60]}", "it has ## Voice and ## Rules")
    always = [{"name": "Always", "when": "anybody writes", "steps": steps}] if steps else []
    return {
        "name": _name(files),
        "department": placed.get("department", "Concierge"),
        "role": role,
        **({"formality": placed["formality"]} if "formality" in placed else {}),
        **({"procedures": always} if always else {}),
        **({"guardrails": guardrails} if guardrails else {}),
    }


def _memory(text: str) -> dict[str, Any]:
    found, _ = pairs(sections(text, "memory.md", ())[""].lines, "memory.md", ("memory", "recall"))
    if "memory" not in found:
        raise wrong("memory.md does not say how much is remembered", "add a line: - memory: session")
    made: dict[str, Any] = {"memory": _one(found["memory"], "memory")}
    if "recall" in found:
        recall = _one(found["recall"], "recall")
        if not recall.isdecimal():
            raise wrong(f"memory.md recalls {recall[:20]}", "write a number: - recall: 5")
        made["recall_limit"] = int(recall)
    return made


def _one(values: list[str], key: str) -> str:
    if len(values) != 1:
        raise wrong(f"{key} is said twice")
    return values[0]


def _list(values: list[str]) -> list[str]:
    return [each.strip() for value in values for each in value.split(",") if each.strip()]


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise wrong(f"emoji are {text[:20]}", "write yes or no")
    return text == "yes"
