"""What a request brings, checked: its JSON, its numbers, who asks and about which study."""

import json
import re
from typing import Any

from starlette.requests import Request

from kappasharp.app.web.service import Service
from kappasharp.app.web.session import Session, off_loop
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.study import events

# What a JavaScript number holds exactly, and how many digits that takes.
LARGEST, DIGITS = 2**53, 17
# A week: nobody looks at a pair for longer.
LONGEST = 7 * 86400.0


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings."""
    try:
        data = json.loads(await request.body(), parse_int=_whole, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError("The request must be JSON.") from error
    if not isinstance(data, dict):
        raise InvalidTypeError("The request must be a JSON object.")
    return data


def _whole(digits: str) -> int:
    if len(digits) > DIGITS or abs(int(digits)) > LARGEST:
        raise ValueError("too large")
    return int(digits)


def _no_number(word: str) -> float:
    raise ValueError(word)


def number_in(data: dict[str, Any], name: str) -> int:
    """A whole number of a request."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"`{name}` must be a whole number, but got {value!r}.")
    return value


def seconds_in(data: dict[str, Any]) -> float | None:
    """How long somebody looked, where the page measured it."""
    value = data.get("seconds")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(f"`seconds` must be a number, but got {value!r}.")
    number = float(value)
    if not 0.0 <= number <= LONGEST:
        raise InvalidValueError(f"`seconds` must be from 0 to {LONGEST:.0f}, but got {value!r}.")
    return number


def voter_in(request: Request, given: Any) -> str:
    """Who asks: noted on the request, because the answer to a stale one names that voter's pair."""
    request.state.voter = events.voter(given)
    return str(request.state.voter)


async def session_of(request: Request) -> Session:
    """The session of the study that a request is about."""
    service: Service = request.app.state.service
    uid = request.path_params["study"]
    if not re.fullmatch(r"[0-9a-f]{32}", uid):
        raise UnknownNameError("There is no such study here.")
    return await off_loop(service.session, uid)
