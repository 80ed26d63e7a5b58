"""A conversation leaves behind what it leaves in the host alone: counters, messages, rows, requests to the model."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

# The numbers of rows, and what /compress does, are those of this version.
pytestmark = [pytest.mark.hermes, pytest.mark.since("0.19.0")]

RunHost = Callable[[str, str], Any]
FRONTENDS = ["cli", "gateway", "tui"]
TIMES = re.compile(r".*_at|.*_seen|timestamp|owner_pid")
"""The columns and fields that hold a time, or a process."""
ID = re.compile(
    r"\b\d{8}_\d{6}_[0-9a-f]+\b"  # a session's
    r"|\b[0-9a-f]{24}\b"  # of what a gateway owes to a chat
)
CHANGING = re.compile(
    r"127\.0\.0\.1:\d+"  # where the model's server listens
    r"|~[\d,]+"  # an estimate of tokens, which counts the folder's name
    r"|✦ Tip.*"  # the host draws one
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?"
)


def normalised(found: Any, directory: str) -> Any:
    """Return what was found without what differs from run to run: ids, times, the folder, a port, estimates.

    An id is replaced by its number, in the order in which ids appear, so that which row belongs to which session
    stays. A time that is not set stays None. Nothing is left out, and nothing is sorted.
    """
    numbers: dict[str, str] = {}

    def in_text(text: str) -> str:
        text = ID.sub(lambda match: numbers.setdefault(match[0], f"id {len(numbers)}"), text.replace(directory, "DIR"))
        return CHANGING.sub("#", text)

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                in_text(name): "time" if TIMES.fullmatch(name) and one is not None else walk(one)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [walk(one) for one in value]
        return in_text(value) if isinstance(value, str) else value

    return walk(found)


@pytest.fixture
def alone(run_host: RunHost) -> Any:
    return run_host("alike", "alone")


@pytest.fixture
def run(run_host: RunHost) -> Any:
    return run_host("alike", "plugin")


def both(run: Any, alone: Any, *names: str) -> tuple[Any, Any]:
    """What was found with ctxruntime, and without, each in one, so that the same id has the same number in all."""
    now, before = (normalised({name: one[name] for name in names}, one["directory"]) for one in (run, alone))
    return now, before


def test_rows_of_the_hosts_own_stores_are_the_same(run: Any, alone: Any) -> None:
    """Every row of every table, in the order of writing: sessions, messages, usage, routes; none twice, none lost."""
    now, before = both(run, alone, "rows", "routes")

    assert now == before
    assert {"sessions": 8, "messages": 144}.items() <= {name: len(table) for name, table in now["rows"].items()}.items()


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_answers_are_the_same(run: Any, alone: Any, frontend: str) -> None:
    """What is shown after each step of a conversation is what the host alone shows."""
    now, before = both(run, alone, "told")

    assert now["told"][frontend] == before["told"][frontend]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_counters_of_the_agent_are_the_same(run: Any, alone: Any, frontend: str) -> None:
    """After each step the agent has counted as many turns, requests and tokens; each turn is one."""
    counted = run["counted"][frontend]

    assert counted == alone["counted"][frontend]
    turns = [counted[step]["_user_turn_count"] for step in ("words", "one tool", "three tools")]
    assert turns == [1, 2, 3]


def test_model_is_asked_the_same(run: Any, alone: Any) -> None:
    """The model gets as many requests, and in each the same messages in the same order."""
    now, before = both(run, alone, "asked")

    assert now == before
    assert run["asked_without_tools"] == alone["asked_without_tools"]


def test_events_fire_as_often_at_each_step(run: Any, alone: Any) -> None:
    """No hook and no middleware fires once more or less; what three tools do at once has no order."""
    assert sorted(run["events"]) == sorted(alone["events"])


def test_commands_run_once_each(run: Any, alone: Any) -> None:
    """Each command of the plugin's is called as often as in the host alone: two in each conversation."""
    ran, before = ([(call["style"], call["args"]) for call in one["records"]] for one in (run, alone))

    assert ran == before
    assert [style for style, _ in ran] == ["named", "coroutine"] * len(FRONTENDS)


def test_compressions_went_as_asked(run: Any) -> None:
    """The first keeps the session's id in every frontend; the second rotates it but at the command line, whose agent
    stays over `/new`."""
    for frontend in FRONTENDS:
        ids = run["ids"][frontend]
        assert ids["compressed in place"] == ids["three tools"]
        rotated = ids["compressed again"] != ids["three tools in the new one"]
        assert rotated == (frontend != "cli")


def test_nothing_of_ours_is_logged(run: Any) -> None:
    """Where nothing is wrong ctxruntime says nothing."""
    assert run["log"] == []


class TestNormalised:
    """That what is the same in all but ids and times is called the same, and nothing else is."""

    FOUND: Final[dict[str, Any]] = {
        "sessions": [{"id": "20300101_120000_abcdef", "started_at": 1.5, "ended_at": None, "message_count": 2}],
        "messages": [
            {"id": 1, "session_id": "20300101_120000_abcdef", "role": "user", "content": "in /a/b", "timestamp": 2.0},
            {"id": 2, "session_id": "20300101_120000_abcdef", "role": "user", "content": "in /a/b", "timestamp": 3.0},
        ],
    }

    def test_ids_times_and_the_folder_do_not_matter(self) -> None:
        """The same conversation at another time, in another folder and under another id is the same."""
        other = copy.deepcopy(self.FOUND)
        other["sessions"][0] |= {"id": "20310303_030303_123456", "started_at": 7}
        for message in other["messages"]:
            message |= {"session_id": "20310303_030303_123456", "content": "in /other", "timestamp": 8.5}

        assert normalised(other, "/other") == normalised(self.FOUND, "/a/b")

    def test_a_message_that_is_there_twice_matters(self) -> None:
        """A doubled message differs, also if it is the same but for its time."""
        other = copy.deepcopy(self.FOUND)
        other["messages"].append(other["messages"][1] | {"timestamp": 4.0})

        assert normalised(other, "/a/b") != normalised(self.FOUND, "/a/b")

    def test_a_message_that_is_lost_matters(self) -> None:
        """A dropped message differs, also where another one says the same."""
        other = copy.deepcopy(self.FOUND)
        del other["messages"][1]

        assert normalised(other, "/a/b") != normalised(self.FOUND, "/a/b")

    def test_a_message_in_another_session_matters(self) -> None:
        """Which rows are of one session is kept, though not the id."""
        other = copy.deepcopy(self.FOUND)
        other["messages"][1]["session_id"] = "20310303_030303_123456"

        assert normalised(other, "/a/b") != normalised(self.FOUND, "/a/b")

    def test_a_count_the_order_and_an_end_matter(self) -> None:
        """A counter, the order of rows, and whether a session has ended at all are kept."""
        counted, turned, ended = (copy.deepcopy(self.FOUND) for _ in range(3))
        counted["sessions"][0]["message_count"] = 3
        turned["messages"].reverse()
        ended["sessions"][0]["ended_at"] = 9.0

        for other in (counted, turned, ended):
            assert normalised(other, "/a/b") != normalised(self.FOUND, "/a/b")
