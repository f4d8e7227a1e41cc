"""What somebody asks about their own day and memory: their calendar, free time, what waits, and things to
keep, find and forget. Pure.

These are few and said in few ways, so patterns of whole sentences know them; what an agent does with others
is in `understanding`. A sentence that names an act with others ("move my meeting") is none of these.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from indai.llm.local.measures import measure
from indai.llm.local.names import person
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
_GIVE: Final = (
    r"^(?:please |plz |pls |can you |could you )?(?:send|give|get|show|mail|i need|i want|can i have)"
)
# "Send the receipt to bob" is something to share, and no wish for one's own.
_RECEIPT: Final = re.compile(
    rf"{_GIVE}(?: me)? (?:the |my |a )?(?:signed )?(?:receipt|proof)\b(?!.*\bto (?!me\b))"
    r"|^(?:mujhe )?(?:.* )?ki (?:raseed|rasid|receipt) (?:bhej|do|de|chahiye)"
    r"|रसीद (?:भेज|दो|दे|दीजिए|चाहिए)"
)
_WITH: Final = re.compile(r"\bwith (?!my\b|the\b|a\b)([\w./-]+)")
_EXPORT: Final = re.compile(
    rf"{_GIVE}(?: me)? (?:my |an |the )?(?:ledger )?(?:export|ledger)\b(?!.*\bto (?!me\b))"
    rf"|{_GIVE}(?: me)? (?:all (?:of )?my data|everything you have (?:on|about) me)"
    r"|^export my (?:data|ledger|agreements)"
    r"|^(?:mera|apna|mujhe mera) (?:sara )?(?:data|export) (?:bhej|do|de)"
    r"|(?:मेरा|अपना) (?:सारा )?(?:डेटा|डाटा|एक्सपोर्ट) (?:भेज|दो|दे|दीजिए|चाहिए)"
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


_GOALS: Final = re.compile(
    r"^goals?\W*$|\b(?:what are|show|list|tell me)\b.*\bmy goals\b|^my goals\b|\bmere goals?\b"
    r"|मेरे (?:लक्ष्य|गोल)"
)
_REMIND: Final = (
    re.compile(
        r"^(?:please |plz |pls |can you |could you )?remind me "
        r"(?P<first>.*?)\b(?:to|that|about) (?P<task>.+)$"
    ),
    re.compile(r"^(?:please |plz |pls )?set a reminder (?P<first>.*?)\b(?:to|about) (?P<task>.+)$"),
    re.compile(r"^(?:please |plz |pls )?set a reminder for (?P<task>.+)$"),
    re.compile(
        r"^(?:mujhe |muje )?(?P<task>.+?),? (?:ka |ki |ke liye )?yaad "
        r"(?:dila|dilana|dila ?do|dilao|dila ?dena|dilaiye|karwana|karwa ?dena)$"
    ),
    re.compile(
        r"^(?:मुझे )?(?P<task>.+?),? (?:का |की |के लिए )?याद "
        r"(?:दिला|दिलाना|दिलाओ|दिला दो|दिला देना|दिलाइए|दिलाएँ)$"
    ),
)
# Words of time at either end of what to be reminded of: they say when, and are no part of it.
_CLOCK: Final = r"(?:at |by |around )?\d{1,2}(?:[:.]\d\d)?\s*(?:am|pm|o'?clock|baje|बजे)?"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIMES: Final = (
    rf"(?:on |this |next |coming |every )?(?:today|tonight|tomorrow|day after tomorrow|{_WEEKDAY}|week"
    r"|morning|afternoon|evening|night|noon)|in the (?:morning|afternoon|evening)"
    r"|aaj|kal|parso|subah|shaam|shaam ko|raat|raat ko|dopahar"
    r"|(?:som|mangal|budh|guru|shukra|shani|ravi)vaa?r"
    r"|आज|कल|परसों|सुबह|शाम|शाम को|रात|रात को|दोपहर|(?:सोम|मंगल|बुध|गुरु|शुक्र|शनि|रवि)वार(?: को)?"
)
_LEADING: Final = re.compile(rf"^(?:(?:{_TIMES}|{_CLOCK})[\s,]+)+", re.IGNORECASE)
_TRAILING: Final = re.compile(rf"(?:[\s,]+(?:{_TIMES}|{_CLOCK}))+$", re.IGNORECASE)
_PURPOSE: Final = (
    re.compile(
        r"\bfor (?!me\b|him\b|her\b|them\b)(?:the |my |our |his |her |your )?(?P<what>[^\d,.;?!]{2,60}?)"
        r"(?= (?:by|on|before|to|today|tomorrow|now|please)\b|[,.;?!]|$)",
        re.IGNORECASE,
    ),
    re.compile(r"(?:^|\s)(?P<what>[^\s\d]+(?: [^\s\d]+)?) (?:ke liye\b|के लिए)", re.IGNORECASE),
)
_NO_PURPOSE: Final = frozenset(
    ("rs", "rupee", "rupees", "rupaye", "rupye", "₹", "ko", "को", "रुपये", "रुपए", "se", "से")
)


def goals_asked(text: str) -> bool:
    """Whether an owner asks for their goals."""
    return _GOALS.search(unicodedata.normalize("NFC", text[:200]).casefold()) is not None


def purpose_of(text: str, slots: Mapping[str, str | int]) -> str:
    """What a payment is for, in the person's words; empty where it isn't said."""
    plain = " ".join(unicodedata.normalize("NFC", text[:500]).split())
    who = set(str(slots.get("person", "")).casefold().split())
    for pattern in _PURPOSE:
        for found in pattern.finditer(plain):
            words = [each for each in found["what"].split() if each.casefold() not in _NO_PURPOSE]
            if words and not who & {each.casefold() for each in words}:
                return " ".join(words)
    return ""


def _reminder(plain: str) -> Understood | None:
    """What to be told when; what is missing is asked for."""
    for pattern in _REMIND:
        found = re.match(pattern.pattern, plain, re.IGNORECASE)
        if found is None:
            continue
        given = found.groupdict()
        said = f"{given.get('first') or ''} {given['task']}".casefold()
        measures = measure(tokens(said))
        slots: dict[str, str | int] = {}
        if measures.days:
            slots["when"] = measures.days[0][1]
        if clock := measures.moment():
            slots["time"] = clock
            slots.setdefault("when", "today")
        task = _TRAILING.sub("", _LEADING.sub("", given["task"].strip())).strip(" ,")
        if task and task.casefold() not in ("mujhe", "muje", "मुझे", "it", "me"):
            slots["task"] = task
        return Understood("remind", slots)
    return None


def reminder_of(text: str) -> str:
    """What to be reminded of, without the words of time; empty where the sentence is none of a reminder's."""
    found = _reminder(" ".join(unicodedata.normalize("NFC", text[:2_000]).split()).strip(" .!।?"))
    return str(found.slots.get("task", "")) if found else ""


def abilities_asked(text: str) -> bool:
    """Whether somebody asks what this agent is for."""
    return _ABLE.search(unicodedata.normalize("NFC", text[:200]).casefold()) is not None


def about_oneself(text: str) -> Understood | None:
    """Intents remind (`task`, `when`, `time`),
    agenda and free (slot `when`), waiting, export, receipt (`person`, `when`), remember and forget (`text`),
    recall (`query`)."""
    plain = " ".join(unicodedata.normalize("NFC", text[:2_000]).split()).strip(" .!।")
    said = plain.rstrip("?").casefold()
    if (reminder := _reminder(plain.rstrip("?"))) is not None:
        return reminder
    for intent, patterns, slot in (("remember", _REMEMBER, "text"), ("forget", _FORGET, "query")):
        for pattern in patterns:
            if found := re.match(pattern.pattern, plain.rstrip("?"), re.IGNORECASE):
                return Understood(intent, {slot: found["text"].strip()})
    if _EXPORT.search(said):
        return Understood("export")
    if _RECEIPT.search(said):
        named = _WITH.search(said)
        who = person(tokens(said)) or (named[1] if named else "")
        return Understood("receipt", _day(said) | ({"person": who} if who else {}))
    if _ACTS.search(said):
        return None
    for intent, pattern in (("free", _FREE), ("agenda", _AGENDA), ("waiting", _WAITING)):
        if pattern.search(said):
            return Understood(intent, _day(said) if intent != "waiting" else {})
    return Understood("recall", {"query": plain}) if _RECALL.search(said) else None


def _day(said: str) -> dict[str, str | int]:
    days = measure(tokens(said)).days
    return {"when": days[0][1]} if days else {}
