"""The tools of intents and of memory, made for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indai.tools.desk import Desks
from indai.tools.files import Keep
from indai.tools.intents.asking import Ask, Request
from indai.tools.intents.gates import SetGates
from indai.tools.intents.goals import ChangeGoal, Goals, GoalsOf, SetGoal
from indai.tools.intents.knowing import Agenda, FindPeople, FreeTime, Threads
from indai.tools.intents.meet import CancelMeeting, Meet, MoveMeeting
from indai.tools.intents.proving import Export, Receipt
from indai.tools.intents.remembering import Forget, Forgets, Recall, Remember, SearchKnowledge
from indai.tools.intents.sharing import AskFor, Share
from indai.tools.intents.trade import Book, Pay
from indai.tools.normalise import Money
from indai.tools.people import People
from indai.tools.room import Room, unlimited
from indai.tools.values import Tool

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub


def intents(
    desks: Desks, people: People, money: Money, keep: Keep, room: Room = unlimited
) -> tuple[Tool, ...]:
    """What an owner's agent can do with others, and what it can see of the owner's own."""
    return (
        Meet(desks, people, keep),
        MoveMeeting(desks, people, keep),
        CancelMeeting(desks, people, keep),
        AskFor(desks, people),
        Ask(desks, people),
        Share(desks, people),
        Request(desks, people),
        Pay(desks, people, money, keep),
        Book(desks, people, money, keep),
        FindPeople(desks, people),
        Agenda(desks),
        FreeTime(desks),
        Threads(desks, people),
        Receipt(desks, people, keep, room),
        Export(desks, keep, room),
    )


def goal_tools(goals: GoalsOf, desks: Desks, people: People) -> tuple[Tool, ...]:
    """What needs the goals of owners."""
    return SetGoal(goals, desks, people), Goals(goals), ChangeGoal(goals, desks, people), SetGates(goals)


def remembering(memory: MemoryServiceAsyncStub, forgets: Forgets) -> tuple[Tool, ...]:
    """What needs a memory role."""
    return Remember(memory), Recall(memory), Forget(memory, forgets), SearchKnowledge(memory)
