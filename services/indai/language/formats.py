"""Money, numbers and times as people in India write them.

Amounts of rupees and plain numbers are grouped by lakh and crore in every language (₹1,20,000; CLDR does so
in half of them only); names of days and months are those of the Unicode CLDR, through Babel. Digits are 0 to
9, as on most screens.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel import Locale
from babel.dates import format_date, format_time
from babel.numbers import format_currency, format_decimal, get_currency_precision
from indai.language.catalogue import say
from indai.language.scripts import base, is_latin

_LAKH, _CRORE = 10**5, 10**7
_ENGLISH = Locale("en", "IN")
_GROUPED = "#,##,##0.###"
_INDIA = "Asia/Kolkata"
# Where CLDR keeps a language by script. It has Sindhi in Arabic letters for Pakistan only, and no names of
# days in Meetei Mayek.
_BY_SCRIPT = {
    "kok": "kok_Deva_IN",
    "ks": "ks_Arab_IN",
    "pa": "pa_Guru_IN",
    "sat": "sat_Olck_IN",
    "sd": "sd_Arab",
}


def number(value: int | Decimal) -> str:
    """A number with at most three decimals: "12,34,567"."""
    return str(format_decimal(value, _GROUPED, locale=_ENGLISH))


def money(minor: int, currency: str, language: str, *, short: bool = False) -> str:
    """An amount in minor units (paise) of an ISO 4217 currency: "₹1,20,000"; with decimals only if there are
    any.

    `short` says rupees from a lakh on as "₹1.2 lakh", in the words of the language, rounded to one decimal.
    """
    amount = Decimal(minor).scaleb(-get_currency_precision(currency))
    if short and currency == "INR" and abs(amount) >= _LAKH:
        key, unit = ("crore", _CRORE) if abs(amount) >= _CRORE else ("lakh", _LAKH)
        sign = "-" if minor < 0 else ""
        return say(key, language, amount=f"{sign}₹{number(round(abs(amount) / unit, 1).normalize())}")
    whole = amount == amount.to_integral_value()
    if currency == "INR":
        pattern = "¤#,##,##0" if whole else "¤#,##,##0.00"
    else:
        pattern = "¤#,##0" if whole else "¤#,##0.00"
    return str(format_currency(amount, currency, pattern, locale=_ENGLISH, currency_digits=False))


def money_of(micros: int, currency: str, language: str) -> str:
    """An amount in millionths of a currency's unit, rounded to its smallest coin: "₹12.35"."""
    minor = Decimal(micros).scaleb(get_currency_precision(currency) - 6)
    return money(int(minor.to_integral_value()), currency, language)


def moment(ms: int, zone: str, language: str) -> str:
    """A moment (milliseconds since the epoch) on the clock of an IANA zone: day of the week, day, month and
    time.

    An unknown zone is read as India's.
    """
    try:
        clock = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        clock = ZoneInfo(_INDIA)
    at = datetime.fromtimestamp(ms / 1000, UTC).astimezone(clock)
    locale = _locale(language)
    day = format_date(at, "EEEE d MMMM", locale=locale)
    return f"{day}, {format_time(at, 'short', locale=locale, tzinfo=clock)}"


def day_of_year(day: date, language: str, *, year: bool = True) -> str:
    """A date: "मंगल, 24 नव॰ 2026"; without its year and the day of the week, "24 नव॰"."""
    return str(format_date(day, "EEE d MMM y" if year else "d MMM", locale=_locale(language)))


def day_in_year(day: date, language: str) -> str:
    """A date as one says it within the year: "மங்கள், 24 நவம்பர்"."""
    return str(format_date(day, "EEE d MMMM", locale=_locale(language)))


def language_name(tag: str, language: str) -> str:
    """What a language is called in another: "Hindi", "हिन्दी"; a tag that names none stands as it is."""
    name = _locale(language).languages.get(base(tag))
    if not name:
        return tag
    return f"{name} ({_locale(language).scripts['Latn']})" if is_latin(tag) else str(name)


def country_name(english: str, language: str) -> str:
    """A country, by its name in the IANA database's table, in another language; what is none stands as it
    is."""
    return str(_locale(language).territories.get(_countries().get(english, ""), english))


@cache
def _countries() -> dict[str, str]:
    """ISO 3166 codes by the names of the IANA database."""
    text = files("tzdata.zoneinfo").joinpath("iso3166.tab").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {row[1]: row[0] for row in rows}


@lru_cache(maxsize=256)
def _locale(tag: str) -> Locale:
    """The CLDR locale of a tag, in India."""
    language = base(tag) or "en"
    if language in ("en", "mni") or is_latin(tag):
        return _ENGLISH
    return Locale.parse(_BY_SCRIPT.get(language, f"{language}_IN"))
