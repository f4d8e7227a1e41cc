"""What somebody asks about their own day and memory: their calendar, free time, what waits, and things to
keep, find and forget. Pure.

These are few and said in few ways, so patterns of whole sentences know them; what an agent does with others
is in `understanding`. A sentence that names an act with others ("move my meeting") is none of these.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from indai.llm.local.measures import measure
from indai.llm.local.understanding import Understood
from indai.llm.local.words import tokens

_CALENDAR: Final = (
    r"calendar|agenda|schedule|meetings?|appointments?|plans?|calls?|कैलेंडर|मीटिंग|मीटिंग्स|शेड्यूल|अपॉइंटमेंट"
)
_ACTS: Final = re.compile(
    r"\b(?:set\s?up|arrange|book|move|shift|cancel|reschedule|postpone|rakho|rakh|hatao|badlo|karwao)\b|रखो|रखें|हटा|बदल|रद्द"
)
_AGENDA: Final = re.compile(
    rf"\b(?:what(?:'s| is| are| do i have)?|show|tell me|list|read|check|any|do i have)\b.*"
    rf"\b(?:{_CALENDAR})\b"
    r"|^what(?:'s| is) (?:on|up) (?:today|tomorrow)"
    r"|^what do i have (?:on|today|tomorrow|this|next)|\bam i (?:busy|booked)\b"
    r"|\b(?:mer[aie]|aaj|kal|is hafte)\b.*\b(?:calendar|meetings?|schedule|appointments?)\b.*"
    r"\b(?:kya|dikhao|batao|kaun|kitn[ie]|hain?)\b"
    r"|(?:मेर[ाीे]|आज|कल|हफ़्ते|हफ्ते).*(?:मीटिंग|कैलेंडर|शेड्यूल|अपॉइंटमेंट).*(?:क्या|दिखा|बता|कौन|कितनी|हैं?)"
)
_FREE: Final = re.compile(
    r"\b(?:when|what time)\b.*\bam i free\b|^am i free\b|\bmy free (?:slots?|time)\b"
    r"|\bmain\b.*\b(?:kab|kal|aaj)?\s*(?:free|khaali|khali)\b.*\b(?:hoon|hun|hu)\b|मैं.*(?:कब|कल|आज).*(?:फ़्री|फ्री|ख़ाली|खाली).*हूँ"
)
_WAITING: Final = re.compile(
    r"\bwhat(?:'s| is)? (?:is )?(?:waiting|pending)\b|\bhow do my (?:requests|threads) stand\b"
    r"|\bkya (?:pending|baaki|baki) hai\b|क्या (?:बाकी|बाक़ी|पेंडिंग) है"
)
_REMEMBER: Final = (
    re.compile(
        r"^(?:please |plz |pls )?(?:remember|note down|make a note|keep in mind|note)(?: that|:|,)?"
        r" (?!to )(?P<text>.+)$"
    ),
    re.compile(r"^(?:ye |yeh )?yaad rakh(?:na|o|iye|lena|lo)?(?: ki|:|,)? (?P<text>.+)$"),
    re.compile(r"^(?P<text>.+?),? (?:ye |yeh )?yaad rakh(?:na|o|iye|lena|lo)$"),
    re.compile(r"^(?:यह |ये )?याद रख(?:ना|ो|िए|ें|लो)?(?: कि|:|,)? (?P<text>.+)$"),
)
_RECALL: Final = re.compile(
    r"^(?:what|which|where|when|who|how)(?: \w+){0,3} (?:did|do|have|am|was) i\b(?! have)"
    r"|^(?:what|which|where|when|who)(?:'s|'re| is| are| was)? my\b"
    r"|\bdo you (?:remember|know|recall)\b|^what do you (?:remember|know)\b"
    r"|^(?:mujhe|mera|meri|mere)\b.*\b(?:kya|kab|kahan|kaun)\b|\b(?:tumhe|aapko|kya) yaad hai\b"
    r"|^(?:मुझे|मेरा|मेरी|मेरे).*(?:क्या|कब|कहाँ|कौन)|याद है"
)
_ABLE: Final = re.compile(
    r"\bwhat (?:can|do) you (?:do|help)\b|\bhow can you help\b|^help\W*$|\bwhat are you for\b"
    r"|\bwho do you work for\b|\bwhat do you show\b"
    r"|\bkya kar sakt[ei]\b|क्या कर सकत[ेी]"
)
_FORGET: Final = (
    re.compile(
        r"^(?:please |plz )?(?:forget|erase)(?: everything| what i said| that)?(?: about)?"
        r" (?!it$)(?P<text>.+)$"
    ),
    re.compile(r"^(?P<text>.+?)(?: ke baare mein| ko| wali baat)? bhool ja(?:o|na|iye)$"),
    re.compile(r"^(?P<text>.+?)(?: के बारे में| को| वाली बात)? भूल जा(?:ओ|ना|इए)$"),
)


def abilities_asked(text: str) -> bool:
    """Whether somebody asks what this agent is for."""
    return _ABLE.search(unicodedata.normalize("NFC", text[:200]).casefold()) is not None


def about_oneself(text: str) -> Understood | None:
    """Intents agenda and free (slot `when`), waiting, remember and forget (`text`), recall (`query`)."""
    plain = " ".join(unicodedata.normalize("NFC", text[:2_000]).split()).strip(" .!।")
    said = plain.rstrip("?").casefold()
    for intent, patterns, slot in (("remember", _REMEMBER, "text"), ("forget", _FORGET, "query")):
        for pattern in patterns:
            if found := re.match(pattern.pattern, plain.rstrip("?"), re.IGNORECASE):
                return Understood(intent, {slot: found["text"].strip()})
    if _ACTS.search(said):
        return None
    for intent, pattern in (("free", _FREE), ("agenda", _AGENDA), ("waiting", _WAITING)):
        if pattern.search(said):
            return Understood(intent, _day(said) if intent != "waiting" else {})
    return Understood("recall", {"query": plain}) if _RECALL.search(said) else None


def _day(said: str) -> dict[str, str | int]:
    days = measure(tokens(said)).days
    return {"when": days[0][1]} if days else {}
