"""What turns are sorted by, in words: topics, moods, endings, stages, channels, languages, countries, acts.

The services and the files to take away keep the names that programs know; pages show words. What a tenant
has named itself (bindings, regions, departments) and what is not known here stands as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indai.desk import acts
from indai.language.formats import country_name, language_name
from indai.web.accounts import TENANT_ROLES
from indai.web.catalog import Words

TOPICS: Final = {
    "greet": "Greetings",
    "thank": "Thanks",
    "deflect": "About the agent itself",
    "feedback": "Feedback and complaints",
    "decision": "Yes or no to a question",
    "banking": "Means of payment",
    "knowledge": "Questions and wishes",
    "other": "Other",
}
"""As `indai.runtime.turn.supervisor` routes."""
MOODS: Final = {
    "plain": "even",
    "curt": "curt",
    "stressed": "stressed",
    "joking": "joking",
    "complaint": "complains",
}
ENDINGS: Final = {
    "answered": "answered",
    "degraded": "answered in part",
    "failed": "not answered",
    "stopped": "broken off",
    "handed_off": "handed to a person",
    "running": "not over yet",
}
STAGES: Final = {
    "tier_resolve": "finding the configuration",
    "perceive": "understanding",
    "gates": "looking at limits",
    "classify": "choosing who answers",
    "recall": "remembering",
    "plan": "planning",
    "execute": "using tools",
    "reflect": "weighing the results",
    "prompt_assemble": "writing the prompt",
    "respond": "answering",
    "llm_ttft": "model, until its first word",
    "llm_total": "model, whole answer",
    "update": "noting it down",
    "total": "all together",
}
CHANNELS: Final = {"web": "web page", "voice": "voice", "cli": "terminal"}
"""Messengers are called as they call themselves."""
SEVERITIES: Final = {"block": "stopped", "rewrite": "changed", "log": "noted"}
OUTCOMES: Final = {"done": "done"}
_BRANDS: Final = {"whatsapp": "WhatsApp", "telegram": "Telegram", "slack": "Slack"}
_PARTS: Final = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
"""What differs between two addresses of one form, with the expression that it fits."""
_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "topics": TOPICS,
    "moods": MOODS,
    "endings": ENDINGS,
    "stages": STAGES,
    "channels": CHANNELS,
    "severities": SEVERITIES,
    "acts": acts.CALLS,
    "ways": acts.WAYS,
    "outcomes": OUTCOMES,
}


@dataclass(frozen=True, slots=True)
class Names:
    """Words for names, in one language."""

    words: Words

    def of(self, what: str, name: str) -> str:
        """`what`: topics, moods, endings, stages, channels, severities, acts, ways, outcomes, languages,
        regions; another group's names are the tenant's own."""
        if name == "unknown":
            return self.words("unknown")
        if what == "languages":
            return language_name(name, self.words.language)
        if what == "regions":
            return country_name(name, self.words.language)
        if what == "acts" and name.startswith("/"):
            path = _PARTS.sub("…", name)
            return self.words(acts.PATHS[path]) if path in acts.PATHS else path
        english = _TABLES.get(what, {}).get(name)
        return self.words(english) if english else _BRANDS.get(name, name)

    def device(self, name: str) -> str:
        """Browser and system as they call themselves."""
        return self.words(acts.NO_DEVICE) if name == acts.NO_DEVICE else name

    def target(self, act: str, target: str) -> str:
        """What an act was about: a sign-in's way and device, who was let in as what, else as it stands."""
        way, comma, device = target.partition(", ")
        if act == "sign-in" and comma:
            return f"{self.of('ways', way)}, {self.device(device)}"
        return self.actor(target) if act == "GrantAccount" else target

    def actor(self, name: str) -> str:
        """Who acted: role and name, as the audit log has them."""
        role, space, rest = name.partition(" ")
        if name == acts.PROGRAM:
            return self.words(acts.A_PROGRAM)
        return f"{self.words(role)} {rest}" if space and role in TENANT_ROLES else name
