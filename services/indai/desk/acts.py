"""Acts at the desks in words: what the audit log calls by an address or by a method of a service."""

from __future__ import annotations

from typing import Final

CALLS: Final = {
    "GetTenantConversation": "Opened a conversation",
    "TakeOverConversation": "Took a conversation over",
    "HandBackConversation": "Handed a conversation back",
    "AnswerConversation": "Answered a visitor",
    "ReplayTenantWork": "Let a job run again",
    "ReplayTenantLetters": "Let messages be sent again",
    "MoveRequest": "Moved a request",
    "CreateSignInCode": "Made a sign-in code",
    "GrantAccount": "Let a person in",
    "RevokeAccount": "Let a person in no more",
    "RevokeDeskSession": "Signed a person out",
    "ProposePersona": "Proposed a change of a persona",
    "AcceptPersonaProposal": "Accepted a change of a persona",
    "RejectPersonaProposal": "Rejected a change of a persona",
    "sign-in": "Signed in",
    "sign-out": "Signed out",
    "download": "Took data away",
}
PATHS: Final = {
    "/desk/approvals/…": "Answered a question",
    "/desk/tool-approvals/…": "Answered a question",
    "/desk/counter/…": "Proposed something else",
    "/desk/threads/…/withdraw": "Took a request back",
    "/desk/threads/…/cancel": "Called an agreement off",
    "/desk/threads/…/fulfil": "Said that it was kept",
    "/desk/threads/…/dispute": "Objected",
    "/desk/threads/…/erase": "Erased a conversation",
    "/desk/rules/preview": "Tried rules out",
    "/desk/rules/save": "Changed the rules",
    "/desk/people/circle": "Changed a circle",
    "/desk/goals/add": "Added a goal",
    "/desk/goals/consent": "Changed what is done unasked",
    "/desk/goals/…/…": "Changed a goal",
    "/desk/memory/…/correct": "Corrected what is remembered",
    "/desk/memory/…/forget": "Had something forgotten",
    "/desk/memory/forget-person": "Had somebody forgotten",
    "/desk/mandates/…/revoke": "Ended a mandate",
    "/desk/access/sessions/…/end": "Signed a device out",
    "/desk/access/passkeys/…/remove": "Removed a passkey",
    "/desk/access/drill": "Tried the recovery drill",
    "/desk/passkey/offer": "Began to add a passkey",
    "/desk/passkey/add": "Added a passkey",
    "/desk/settings/language": "Chose a language",
    "/desk/settings/tone": "Chose a tone",
    "/desk/settings/zone": "Changed the time zone",
    "/desk/settings/meetings": "Changed how meetings are set up",
    "/desk/settings/quiet": "Changed the quiet hours",
    "/desk/pause/on": "Paused the agent",
    "/desk/pause/off": "Let the agent work again",
    "/desk/start": "Asked for a meeting from a page",
    "/desk/let-in/grant": "Let a person in",
    "/desk/let-in/revoke": "Let a person in no more",
    "/desk/let-in/code": "Made a sign-in code",
    "/desk/let-in/end": "Signed a device out",
    "/desk/let-in/passkeys/…/remove": "Removed a passkey",
    "/…/-/sites": "Changed which sites may show the chat",
    "/tenant/…/talks/…/take": "Took a conversation over",
    "/tenant/…/talks/…/say": "Answered a visitor",
    "/tenant/…/talks/…/back": "Handed a conversation back",
    "/tenant/…/board/…/move": "Moved a request",
    "/tenant/…/work/replay": "Let a job run again",
    "/tenant/…/work/channels/…/replay": "Let messages be sent again",
}
"""By the address, with … for what differs between two of one form."""
WAYS: Final = {"code": "code", "passkey": "passkey", "oidc": "your organisation's sign-in"}
"""How somebody signed in."""
NO_DEVICE: Final = "another program"
"""As `indai.web.sign_in.device_of` calls what tells nothing of itself."""
PROGRAM: Final = "token"
A_PROGRAM: Final = "a program, with a token"
"""Who acts without a session: the node's operator, or a program of theirs."""
