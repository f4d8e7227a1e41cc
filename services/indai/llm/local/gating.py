"""What holds an agent back from doing things unasked, as its owner says it: "don't disturb me between 10 pm
and 7 am", "din mein do baar se zyada mat batana", "बिना पूछे कुछ मत करो". Pure; English, Hindi, Hinglish.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from indai.llm.local.understanding import Slot, Understood

_NUKTA: Final = "\u093c"
_LONGEST: Final = 200
_PART: Final = r"(?:(?:raat|rat|subah|subh|shaam|sham|dopahar|रात|सुबह|शाम|दोपहर)(?: (?:ko|ke|को|के))? )"
_CLOCK: Final = (
    rf"(?:(?P<{{0}}part>{_PART})?(?P<{{0}}hour>\d{{{{1,2}}}})(?:[:.](?P<{{0}}minute>\d\d))?"
    r" ?(?P<{0}half>am|pm|a\.m\.?|p\.m\.?|o'?clock|baje|बजे)?"
    r"(?: (?P<{0}after>at night|in the (?:morning|evening)|tonight))?"
    r"|(?P<{0}word>midnight|noon|aadhi raat|आधी रात))"
)
_HOURS: Final = (
    rf"(?:(?:from|between) )?{_CLOCK.format('a')} ?(?:-|–|to|till|until|til|and|se|से|aur|और)"
    rf" ?{_CLOCK.format('b')}"
)
_NOT: Final = r"(?:do not|don'?t|never)"
_TELLS: Final = r"(?:disturb|bother|message|write to|wake|text|ping|notify|tell|remind)"
_END: Final = r"(?= and | but |,|$)"
# The hours stand right beside what they are of: "don't tell me about the call from 3 to 5" is about a call.
_QUIET: Final = tuple(
    re.compile(form)
    for form in (
        rf"^(?:(?:set|make|change|put|keep|have) )?(?:(?:my|the) )?quiet (?:hours?|time)"
        rf"(?: (?:are|is|be|at|of|to))?:? {_HOURS}{_END}",
        rf"^(?:{_NOT} {_TELLS} me(?: anything| at all)?|do not disturb|leave me alone"
        rf"|no (?:messages?|notices|notifications|reminders)) {_HOURS}{_END}",
        rf"^(?:{_NOT} {_TELLS} me(?: anything| at all)?|no (?:messages?|notices|notifications|reminders))"
        rf" after {_CLOCK.format('a')} (?:and|or|until|till) (?:before )?{_CLOCK.format('b')}{_END}",
        rf"^{_HOURS} (?:tak|तक) (?:(?:mujhe|kuch|मुझे|कुछ) )*"
        r"(?:(?:disturb|pareshan|tang|message|notify|परेशान|डिस्टर्ब|तंग|मैसेज) )?"
        r"(?:mat|na|nahi|मत|न|नहीं) (?:kar\w*|batana|jagana|bhejna|कर\S*|बताना|जगाना|भेजना)$",
    )
)
_NONE: Final = re.compile(
    r"^(?:(?:i want )?no|(?:remove|end|drop|clear)(?: my| the)?) quiet (?:hours?|time)$"
    r"|^(?:mere )?quiet (?:hours?|time) (?:off|hata\w*|band|nahi)\b|^(?:मेरे )?शांत (?:समय|घंटे) (?:हटा|बंद|नहीं)"
)
_COUNT: Final = {
    "once": 1,
    "one": 1,
    "ek": 1,
    "एक": 1,
    "twice": 2,
    "two": 2,
    "do": 2,
    "दो": 2,
    "three": 3,
    "teen": 3,
    "तीन": 3,
    "four": 4,
    "chaar": 4,
    "char": 4,
    "चार": 4,
    "five": 5,
    "paanch": 5,
    "पांच": 5,
    "पाँच": 5,
    "six": 6,
    "chhe": 6,
    "छह": 6,
    "ten": 10,
    "das": 10,
    "दस": 10,
}
_NUMBER: Final = rf"(?P<n>\d{{1,3}}|{'|'.join(sorted(_COUNT, key=len, reverse=True))})"
_OVER: Final = r"(?:at most|(?:no |not )?more than|maximum(?: of)?|max|only)"
_A_DAY: Final = r"(?:a|per|each|every|in a|in one) day(?= and | but |,|$)"
_MOST: Final = (
    re.compile(
        rf"(?:^|and |but ){_NOT} {_TELLS} me(?: of (?:things|anything)| things| anything)?"
        rf" more than {_NUMBER}(?: times?)? {_A_DAY}"
    ),
    re.compile(
        rf"(?:^|and |but ){_TELLS} me(?: of (?:things|anything)| things| something)?"
        rf" (?:at most|no more than|not more than|only) {_NUMBER}(?: times?)? {_A_DAY}"
    ),
    re.compile(rf"(?:^|and |but ){_OVER} {_NUMBER} (?:messages?|notices?|notifications?|acts?) {_A_DAY}"),
    re.compile(
        rf"\b(?:din (?:mein|me|main)|ek din (?:mein|me)|roz) {_NUMBER} (?:baar|bar|message) se (?:z|j)yada"
        r" (?:mat|na|nahi) (?:batana|bolna|bhejna|likhna|yaad)"
    ),
    re.compile(
        rf"(?:दिन में|रोज) {_NUMBER} (?:बार|मैसेज|संदेश) से (?:ज्यादा|अधिक) (?:मत|न|नहीं) (?:बता|बोल|भेज|लिख|याद)"
    ),
)
_BY_ITSELF: Final = r"(?:unasked|on your own|by yourself|without (?:asking|being asked)(?: me)?)"
_UNASKED: Final = r"(?:bina (?:mujhse )?(?:pooche|puche)|(?:mujhse )?(?:pooche|puche) bina|khud se|apne aap)"
_BINA: Final = "(?:बिना (?:मुझसे )?पूछे|(?:मुझसे )?पूछे बिना|खुद से|अपने आप)"
_OFF: Final = re.compile(
    rf"^{_NOT} (?:do|act|begin|start)(?: anything| something| things)? {_BY_ITSELF}(?: any ?more)?$"
    rf"|^do nothing {_BY_ITSELF}(?: any ?more)?$|^stop (?:acting|doing things) {_BY_ITSELF}$"
    rf"|^{_UNASKED} (?:kuch|kuchh) (?:bhi )?(?:mat|na) (?:karo|karna|kariye|kijiye)$"
    rf"|^{_BINA} कुछ (?:भी )?(?:मत|न|ना) (?:करो|करना|करिए|कीजिए|करें)$"
)
_ON: Final = re.compile(
    rf"^(?:you (?:may|can) )?(?:act|do (?:things|something)|begin things) {_BY_ITSELF}(?: again)?$"
    rf"|^(?:ab )?{_UNASKED} (?:phir se )?(?:kaam )?(?:kar sakt[ei] (?:ho|hain)|karo)$"
    rf"|^(?:अब )?{_BINA} (?:फिर से )?(?:काम )?(?:कर सकत[ेी] (?:हो|हैं)|करो)$"
)
_POLITE: Final = re.compile(
    r"^(?:(?:please|plz|pls|kripya|कृपया|ok|okay|ab se|अब से|from now on),? )+|,? (?:please|plz)$"
)
_LATE: Final = ("raat", "rat", "shaam", "sham", "रात", "शाम", "dopahar", "दोपहर")


def gating(text: str) -> Understood | None:
    """Intent gates; slots by what was said: `quiet` (HH:MM-HH:MM, or none), `most` (so many a day),
    `allowed` (whether anything is done unasked)."""
    if len(text) > _LONGEST or "?" in text:
        return None
    bare = unicodedata.normalize("NFD", text).replace(_NUKTA, "")
    plain = " ".join(unicodedata.normalize("NFC", bare).replace("’", "'").split()).casefold().strip(" .!।")
    plain = _POLITE.sub("", _digits(plain))
    slots: dict[str, Slot] = {}
    if _OFF.search(plain):
        slots["allowed"] = False
    elif _ON.search(plain):
        slots["allowed"] = True
    if _NONE.search(plain):
        slots["quiet"] = "none"
    elif between := next(filter(None, (form.search(plain) for form in _QUIET)), None):
        start, end = _minute(between, "a"), _minute(between, "b")
        if start is not None and end is not None and start != end:
            slots["quiet"] = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    if most := _most(plain):
        slots["most"] = most
    return Understood("gates", slots) if slots else None


def _most(plain: str) -> int:
    for pattern in _MOST:
        if found := pattern.search(plain):
            number = found["n"]
            return int(number) if number.isdecimal() else _COUNT[number]
    return 0


def _minute(found: re.Match[str], which: str) -> int | None:
    """Of the day; an hour that nothing tells of is late where quiet begins, and early where it ends."""
    if word := found[f"{which}word"]:
        return 12 * 60 if word == "noon" else 0
    hour, minute = int(found[f"{which}hour"]), int(found[f"{which}minute"] or 0)
    if hour > 24 or minute > 59:
        return None
    part, half = (found[f"{which}part"] or "").split(" ")[0], (found[f"{which}half"] or "").replace(".", "")
    after = found[f"{which}after"] or ""
    if hour <= 12 and not (found[f"{which}minute"] and len(found[f"{which}hour"]) == 2 and not part + half):
        late = half == "pm" or part in _LATE or "night" in after or "evening" in after
        early = half == "am" or part in ("subah", "subh", "सुबह") or "morning" in after
        if not late and not early:
            late, early = which == "a" and hour >= 6, which == "b" or hour < 6
        night = part in ("raat", "rat", "रात") or "night" in after
        if late and not (night and (hour < 6 or hour == 12)):
            hour = hour % 12 + 12
        elif hour == 12:
            hour = 0
    return hour % 24 * 60 + minute


def _digits(text: str) -> str:
    return "".join(
        str(unicodedata.digit(each)) if each.isdigit() and not each.isascii() else each for each in text
    )
