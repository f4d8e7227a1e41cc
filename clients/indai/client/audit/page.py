"""The report of an audit as one HTML file: for reading on any screen and for printing, with nothing to fetch.

No scripts and no links outside; light and dark as the reader's system is. Everything that came from a file
is escaped, since nobody vouches for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from indai.client.audit.report import CommitmentVerdict, Finding, Report, Severity, Verdict

# What each verdict says, in a word for its badge's colour and a sentence for the reader.
_VERDICTS: dict[Verdict, tuple[str, str]] = {
    Verdict.VALID: ("good", "everything supplied about it is consistent and right"),
    Verdict.UNOPENED: ("warn", "its content is erased or withheld"),
    Verdict.INCONCLUSIVE: ("warn", "something needed to judge it was not supplied"),
    Verdict.UNCONFIRMED: ("warn", "the offerer's receipt, or a party's entry, is missing"),
    Verdict.CONTESTED: ("bad", "a key or a word of it is disputed"),
    Verdict.INVALID: ("bad", "it breaks a rule"),
}
_SEVERITIES = {
    Severity.NOTE: "good",
    Severity.OPEN: "warn",
    Severity.UNREADABLE: "bad",
    Severity.INVALID: "bad",
    Severity.FRAUD: "bad",
}
_STYLE = files("indai.client.audit").joinpath("page.css").read_text("utf-8")
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MAX_ROWS = 2_000  # of a table; the worst stand first
_WIDE = '<table class="wide"><thead><tr><th>{}</th><th>{}</th></tr></thead><tbody>'


def html_page(report: Report, names: Sequence[str]) -> str:
    """The whole page. `names` are those of the exports that were judged."""
    body = (
        "<header><h1>Audit of commitment ledgers</h1>",
        f'<p class="soft">Of {_text(", ".join(names))}</p></header>',
        f'<p class="banner {_SEVERITIES[report.severity]}">{escape(report.conclusion)}</p>',
        *_verdicts(report),
        *_counts(report),
        *_commitments(report.commitments),
        *_findings(report.findings),
        "<h2>What this does not show</h2>",
        "<p>That nothing was left out for which nobody holds a receipt or a signed head; that the facts"
        " behind a decision were true; when something happened, beyond what cosignatures bound.</p>",
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'
        f"<title>Audit: {escape(report.conclusion)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _verdicts(report: Report) -> Iterable[str]:
    yield "<h2>Verdicts</h2><table><thead><tr><th>Verdict</th><th>Meaning</th>"
    yield '<th class="number">Count</th></tr></thead><tbody>'
    for verdict, (style, meaning) in _VERDICTS.items():
        count = report.verdicts[verdict.value]
        shown = style if count else "soft"
        yield f'<tr><td><span class="badge {shown}">{verdict.value}</span></td><td>{meaning}</td>'
        yield f'<td class="number">{count:,}</td></tr>'
    yield "</tbody></table>"


def _counts(report: Report) -> Iterable[str]:
    counts = report.counts
    shown = (
        ("ledgers", counts.ledgers),
        ("leaves", counts.leaves),
        ("opened", counts.opened),
        ("signed heads", counts.checkpoints),
        ("threads", counts.threads),
        ("messages", counts.messages),
        ("policy decisions", counts.decisions),
        ("registry entries", counts.registry_entries),
    )
    yield "<h2>What was read</h2><dl>"
    yield from (f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count in shown)
    yield "</dl>"


def _commitments(commitments: Sequence[CommitmentVerdict]) -> Iterable[str]:
    if not commitments:
        return
    # What needs a reader's eye stands first.
    ranked = sorted(commitments, key=lambda one: -list(Verdict).index(one.verdict))
    yield "<h2>Commitments</h2>" + _WIDE.format("Verdict", "Commitment")
    for one in ranked[:MAX_ROWS]:
        style = _VERDICTS[one.verdict][0]
        parties = " and ".join(one.parties) or "unknown parties"
        yield f'<tr><td><span class="badge {style}">{one.verdict.value}</span></td><td>'
        yield f"<strong>{_text(parties)}</strong> <code class=soft>{_text(one.mid[:12])}</code>"
        yield f"<p>{_text(one.words)}</p>" if one.words else ""
        yield f"<p>{_text(one.became)}</p>" if one.became else ""
        if one.why:
            yield "<ul>" + "".join(f"<li>{_text(why)}</li>" for why in one.why) + "</ul>"
        where = ", ".join(str(place) for place in one.places)
        yield f'<p class="soft">{_text(where)}</p></td></tr>'
    yield "</tbody></table>"
    yield from _left_out(one.verdict.value for one in ranked[MAX_ROWS:])


def _findings(findings: Sequence[Finding]) -> Iterable[str]:
    if not findings:
        return
    yield "<h2>Findings</h2>" + _WIDE.format("Severity", "Finding")
    ranked = sorted(findings, key=lambda found: -found.severity.value[0])
    for one in ranked[:MAX_ROWS]:
        style = _SEVERITIES[one.severity]
        yield f'<tr><td><span class="badge {style}">{one.severity.name}</span></td><td>{_text(one.message)}'
        yield f'<p class="soft">{_text(str(one.place))}, check <code>{escape(one.check)}</code></p></td></tr>'
    yield "</tbody></table>"
    yield from _left_out(one.severity.name for one in ranked[MAX_ROWS:])


def _left_out(kinds: Iterable[str]) -> Iterable[str]:
    """What a page for people has no room for."""
    counted = ", ".join(f"{count:,} {kind}" for kind, count in Counter(kinds).items())
    if counted:
        yield f"<p>Not listed here: {counted}. <code>indai audit --json</code> names each.</p>"


def _text(text: str) -> str:
    """Text out of a file: escaped, and without what could turn the line around."""
    return escape("".join(char if char.isprintable() else " " for char in text))
