"""What conversations and their stores raise, wherever it is caught."""

from __future__ import annotations

import copy
import pickle

import pytest

from ctxruntime.conversation import errors
from ctxruntime.errors import CtxRuntimeError

EVERY = [
    errors.MissingClientError("redis", "redis-py"),
    errors.StoreError("the store", "failed", "see its log"),
    errors.StoreUnavailableError("the store", "is away", "start it"),
    errors.StoreBusyError("the store", "is busy", "wait"),
    errors.StoreReadOnlyError("the store", "is a replica", "name the primary"),
    errors.StoreFullError("the store", "is full", "make room"),
    errors.StoreCorruptError("the store", "is damaged", "move it away"),
    errors.StoreVersionError("the store", 3, 1),
    errors.StateTooLargeError("notes", 300, 256),
    errors.ConversationGoneError("c0ffee"),
    errors.NoConversationError("notes"),
]


def test_every_error_is_here() -> None:
    """No error of the module is left out of what these tests say."""
    assert sorted(type(error).__name__ for error in EVERY) == errors.__all__


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "passed_on", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickled", "copied"]
)
def test_an_error_says_the_same_where_it_is_passed_on_to(error: CtxRuntimeError, passed_on: object) -> None:
    """A process pool's worker can raise each of them: it comes out with its type, its text and what it knows."""
    assert callable(passed_on)

    arrived = passed_on(error)

    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.MissingClientError, ImportError),
        (errors.StoreUnavailableError, ConnectionError),
        (errors.StoreBusyError, ConnectionError),
        (errors.StoreReadOnlyError, PermissionError),
        (errors.StateTooLargeError, ValueError),
        (errors.ConversationGoneError, LookupError),
    ],
    ids=lambda kind: kind.__name__,
)
def test_an_error_is_the_builtin_that_one_would_catch(error: type[Exception], builtin: type[Exception]) -> None:
    """Code that knows nothing of conversations catches them as what it knows."""
    assert issubclass(error, builtin)
    assert issubclass(error, CtxRuntimeError)
