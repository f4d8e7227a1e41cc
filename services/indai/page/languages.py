"""What languages call themselves: those of the eighth schedule of the Constitution of India, and English."""

from __future__ import annotations

from typing import Final

_OWN: Final = {
    "as": "অসমীয়া",
    "bn": "বাংলা",
    "brx": "बर'",
    "doi": "डोगरी",
    "en": "English",
    "gu": "ગુજરાતી",
    "hi": "हिन्दी",
    "kn": "ಕನ್ನಡ",
    "kok": "कोंकणी",
    "ks": "کٲشُر",
    "mai": "मैथिली",
    "ml": "മലയാളം",
    "mni": "ꯃꯤꯇꯩꯂꯣꯟ",
    "mr": "मराठी",
    "ne": "नेपाली",
    "or": "ଓଡ଼ିଆ",
    "pa": "ਪੰਜਾਬੀ",
    "sa": "संस्कृतम्",
    "sat": "ᱥᱟᱱᱛᱟᱲᱤ",
    "sd": "سنڌي",
    "ta": "தமிழ்",
    "te": "తెలుగు",
    "ur": "اردو",
}


def autonym(language: str) -> str:
    """The language's own name for itself; its code where none is known."""
    name = _OWN.get(language.partition("-")[0], language)
    return f"{name} (abc)" if language.endswith("-Latn") and name != language else name
