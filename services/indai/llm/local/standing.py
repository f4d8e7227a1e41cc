"""What somebody wants kept up over time: "meet ravi every week", "ravi wala goal band karo". Pure.

What makes a wish a standing one is that it names a rhythm; without one a meeting is one meeting and a
reminder one reminder. Patterns know the rhythm, in English, Hindi and Hinglish, and what is left of the
sentence is understood as any other.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Final

from indai.llm.local.measures import measure
from indai.llm.local.names import likely, person
from indai.llm.local.own import purpose_of, reminder_of
from indai.llm.local.understanding import Slot, Understood, understand
from indai.llm.local.words import tokens

_NUKTA: Final = "\u093c"
_NUMBERS: Final = {
    "other": 2,
    "second": 2,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "ten": 10,
    "do": 2,
    "teen": 3,
    "tin": 3,
    "char": 4,
    "chaar": 4,
    "paanch": 5,
    "das": 10,
    "दो": 2,
    "तीन": 3,
    "चार": 4,
    "पांच": 5,
    "पाँच": 5,
    "छह": 6,
    "दस": 10,
    "doosre": 2,
    "dusre": 2,
    "दूसरे": 2,
}
_UNITS: Final = {
    "hour": r"hours?|gh?ant(?:e|a|on)|घंट(?:े|ा|ों)",
    "day": r"days?|din(?:on)?|ro[zj](?:aana|ana)?|mornings?|evenings?|दिन(?:ों)?|रोज(?:ाना)?",
    "week": r"weeks?|ha?ft(?:e|a|on|ey)|saptah|हफ्त(?:े|ा|ों)|सप्ताह",
    "fortnight": r"fortnights?",
    "month": r"months?|mahin(?:e|a|on)|maah|महीन(?:े|ा|ों)|माह",
    "year": r"years?|saal|sal|साल|वर्ष",
}
_UNIT: Final = "|".join(f"(?P<{name}>{forms})" for name, forms in _UNITS.items())
_WEEKDAY: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:som|mangal|budh|guru|shukra|shani|ravi)va*r"
    r"|(?:सोम|मंगल|बुध|गुरु|शुक्र|शनि|रवि)वार"
)
_NUMBER: Final = rf"\d{{1,3}}|{'|'.join(_NUMBERS)}"
_EDGE: Final = r"(?![^\W\d_])(?![\u0900-\u0963])"  # \b does not know the signs of Devanagari
_RHYTHM: Final = re.compile(
    rf"(?<![^\W\d_])(?:(?:every|each|har|हर|once (?:a|every|in)|after every)\s+(?:(?P<n>{_NUMBER})\s+)?"
    rf"(?:{_UNIT}|(?P<weekday>{_WEEKDAY})){_EDGE}"
    rf"|(?P<named>daily|weekly|fortnightly|monthly|yearly|ro[zj](?:ana)?|रोज(?:ाना)?){_EDGE}"
    r"|(?P<within>(?:haft[ey]|mahine) (?:mein|me|main) ek baar|(?:हफ्ते|महीने) में एक बार))"
    r"(?:\s+(?:mein|me|में|par|pe|पर|ko|को)(?=\s|$))?",
    re.IGNORECASE,
)
_NAMED: Final = {
    "daily": "day",
    "roz": "day",
    "roj": "day",
    "रोज": "day",
    "rozana": "day",
    "rojana": "day",
    "रोजाना": "day",
    "weekly": "week",
    "fortnightly": "fortnight",
    "monthly": "month",
    "yearly": "year",
}
_AFTER: Final = re.compile(rf"(?<!\w)(?:(?P<n>{_NUMBER})|an?|ek|एक)\s+(?:{_UNIT}){_EDGE}", re.IGNORECASE)
_UNANSWERED: Final = re.compile(
    r"\bfollow[ -]?ups?\b|\b(?:has|have|did)(?:n'?t| not) (?:answer|repl)|\bno (?:answer|reply)\b"
    r"|\bnot (?:answered|replied)\b|\bunanswered\b"
    r"|\b(?:jawab|jawaab|reply) (?:nahi|nahin|nhi|na)\b|(?:जवाब|उत्तर) (?:नहीं|न) ",
    re.IGNORECASE,
)
_REMINDS: Final = re.compile(r"\bremind(?:er)?s?\b|\byaad dil|याद दिल", re.IGNORECASE)
_STOPS_REMINDING: Final = re.compile(
    r"\b(?:stop|pause|resume) remind|याद दिलाना (?:बंद|रोक)|\byaad dilana (?:band|rok)", re.IGNORECASE
)
_REMINDING: Final = re.compile(r"याद दिलाना|\byaad dilana\b", re.IGNORECASE)
_GOAL: Final = r"goals?|targets?|lakshya|लक्ष्य|गोल"
_CALLED: Final = re.compile(rf"(?<!\w)(?:{_GOAL}){_EDGE}", re.IGNORECASE)
_HELPING: Final = r"(?: (?:do|दो|dijiye|दीजिए|dena|देना))?"
_ITSELF: Final = re.compile(
    r"\b(?:by yourself|without asking me|on your own|apne aap|khud se|mujhse pooche bina)\b"
    r"|अपने आप|खुद से|मुझसे पूछे बिना",
    re.IGNORECASE,
)
_CHANGES: Final = (
    ("end", r"stop|end|remove|delete|drop|hata\w*|band kar\w*|khatam kar\w*|हटा\S*|बंद कर\S*|खत्म कर\S*"),
    ("pause", r"pause|hold|rok\w*|रोक\S*"),
    ("resume", r"resume|restart|continue|wapas shuru\w*|phir se shuru\w*|वापस शुरू\S*|फिर से शुरू\S*"),
)
_ASIDE: Final = re.compile(
    r"\b(?:please|plz|pls|the|my|of|on|to|with|about|for|again|it|goals?|targets?|lakshya|mera|mere|meri|wala|wali|vala|vali"
    r"|ka|ki|ke|ko|se|do|dijiye|dena|dein|kar|karo|kare|karein|meet(?:ing)?|see(?:ing)?|remind(?:ing|er)?|me)\b"
    r"|लक्ष्य|गोल|मेर[ाीे]|वाल[ाीे]|(?<=\s)(?:का|की|के|को|से|दो|दीजिए|देना)(?=\s|$)"
)


# After "daily" in "pay bob 200 daily": what is no thing that comes so often.
_GOES_ON: Final = re.compile(
    r"\s*(?:$|[,.;!?।]|(?:rs\.?|₹|inr|\d)|(?:to|for|from|starting|till|until|please|plz|pls|by|and|ko|ke|se)\b|(?:को|के|से)(?=\s))",
    re.IGNORECASE,
)


def standing(text: str) -> Understood | None:
    """Intents goal (slots `kind`: meet, follow-up, remind; `every`, and by kind `person`, `minutes`, `task`,
    `act`) and ungoal (`change`: end, pause, resume; `goal`: what it is about)."""
    bare = unicodedata.normalize("NFD", text[:500]).replace(_NUKTA, "")
    plain = " ".join(unicodedata.normalize("NFC", bare).split()).strip(" .!।?")
    if (change := _changed(plain.casefold())) is not None:
        return change
    if _UNANSWERED.search(plain) and (after := _AFTER.search(plain) or _RHYTHM.search(plain)):
        return Understood("goal", {"kind": "follow-up", "every": _every(after)})
    rhythm = _RHYTHM.search(plain)
    if rhythm is None:
        return None
    every = _every(rhythm)
    rest = " ".join(f"{plain[: rhythm.start()]} {plain[rhythm.end() :]}".split())
    if _REMINDS.search(rest):
        task = reminder_of(rest)
        slots: dict[str, Slot] = {"kind": "remind", "every": every}
        return Understood("goal", {**slots, "task": task} if task else slots)
    return _meeting(rest, every)


def rhythm_of(text: str) -> str:
    """How often a payment is to be made: `month`; empty where nothing is said of that. In "for the monthly
    report" the word is what it is for."""
    bare = unicodedata.normalize("NFD", text[:500]).replace(_NUKTA, "")
    plain = " ".join(unicodedata.normalize("NFC", bare).split()).strip(" .!।?")
    for found in _RHYTHM.finditer(plain):
        if not found["named"] or _GOES_ON.match(plain, found.end()):
            return _every(found)
    return ""


def payment(found: Understood, text: str, *answers: str) -> Understood:
    """What else is said of a payment, also in answers to our questions: what it is for, how often."""
    every = next((each for said in (text, *answers) if (each := rhythm_of(said))), "")
    also = {"purpose": purpose_of(text, found.slots), "every": every}
    return replace(found, slots={**found.slots, **{name: said for name, said in also.items() if said}})


def _meeting(rest: str, every: str) -> Understood | None:
    about_goal = _CALLED.search(rest) is not None
    plain = re.sub(
        rf"(?:\b(?:set|add|make|keep) )?(?:a |the )?(?:{_GOAL}){_EDGE}(?: to| of| hai| rakho| है| रखो)?",
        " ",
        rest,
        flags=re.IGNORECASE,
    )
    by_itself = _ITSELF.search(plain) is not None
    plain = " ".join(_ITSELF.sub(" ", plain).split())
    said = tokens(plain)
    found = understand(plain)
    who = person(said) or likely(said)
    meets = found is not None and found.intent == "meet"
    if not who or not (meets or about_goal):
        return None
    slots: dict[str, Slot] = {"kind": "meet", "every": every, "person": who}
    if minutes := round(measure(said).minutes):
        slots["minutes"] = minutes
    return Understood("goal", {**slots, "act": True} if by_itself else slots)


def _changed(plain: str) -> Understood | None:
    """A goal that is to end, to pause or to go on: it is called one, or its rhythm is said."""
    rhythm = _RHYTHM.search(plain)
    called = _CALLED.search(plain)
    if not (called or rhythm or _STOPS_REMINDING.search(plain)):
        return None
    for change, forms in _CHANGES:
        found = re.search(
            rf"^(?:please |plz |pls )?(?:{forms}){_EDGE}|(?:^|\s)(?:{forms}){_HELPING}$",
            plain,
        )
        if found is None:
            continue
        rest = f"{plain[: found.start()]} {plain[found.end() :]}"
        for pattern in (_RHYTHM, _ASIDE, _REMINDING):
            rest = pattern.sub(" ", rest)
        goal = " ".join(rest.split()).strip(" ,'\"")
        return Understood("ungoal", {"change": change, "goal": goal} if goal else {"change": change})
    return None


def _every(found: re.Match[str]) -> str:
    """`week`, `2 days`: as tools take it."""
    given = found.groupdict()
    if named := given.get("named"):
        return _NAMED[named.casefold()]
    if within := given.get("within"):
        return "month" if within.casefold().startswith(("mahine", "महीने")) else "week"
    unit = "week" if given.get("weekday") else next(name for name in _UNITS if given.get(name))
    number = (given.get("n") or "1").casefold()
    count = int(number) if number.isdecimal() else _NUMBERS[number]
    return unit if count == 1 else f"{count} {unit}s"
