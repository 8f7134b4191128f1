"""Which requests the server accepts, and what happens to those that it cannot read.

A page from elsewhere may point a name of its own at this machine (DNS rebinding), or open a socket to it. So a request
must name the server by a name that is its own, and what a page sends must come from a page of this server: the Origin,
where there is one, is the Host. Garbage is answered with a sentence and never with a traceback.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::", "")
_NAMED = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", re.IGNORECASE)
_LONGEST_PART = 255  # of a path: no file has a longer name
_PACKETS = "0123456"  # what a message of Engine.IO starts with

_log = logging.getLogger("sphereflow.explorer")


@dataclass(frozen=True)
class Names:
    """The names of this server: those of the machine itself, the address it listens on, and what the user allows."""

    own: frozenset[str]
    numbers: bool

    @classmethod
    def of(cls, host: str, allowed: Iterable[str] = ()) -> Names:
        """A server on all addresses may be named by any number: a number cannot be pointed elsewhere, a name can."""
        own = {*LOOPBACK, host.lower(), *(name.lower() for name in allowed)} - set(_EVERYWHERE)
        return cls(frozenset(own), host in _EVERYWHERE)

    def refusal(self, hosts: list[str], origins: list[str]) -> str:
        """Why a request with these headers is refused; empty if it is not."""
        match = _NAMED.fullmatch(hosts[0]) if len(hosts) == 1 else None
        name = (match[1] or match[2]).lower() if match else ""
        if not name or not (name in self.own or (self.numbers and _is_number(name))):
            shown = _plain(hosts[0]) if hosts else ""
            return f"this server is not called '{shown}'; start it with --allow NAME to admit another name."
        if any(
            origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()) for origin in origins
        ):
            return f"pages of '{_plain(origins[0])}' may not speak to this server."
        return ""


class Guard:
    """Refuses, before anything else is done, requests that are not for this server or not from its pages."""

    def __init__(self, app: ASGIApp, names: Names):
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        status, why = self._refusal(scope)
        if scope["type"] == "http":
            answer: ASGIApp = PlainTextResponse(f"sphereflow: {why}\n", status) if why else self._app
            return await answer(scope, receive, send)
        if why:
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": why[:100]})
        try:
            await self._app(scope, _packets(receive), send)
        except Exception as error:  # a socket that was not used as one; the others go on
            _log.warning("a connection was given up: %s", type(error).__name__)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        sent = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        why = self._names.refusal(*([value for name, value in sent if name == key] for key in (b"host", b"origin")))
        if why:
            return 403, why
        if "\0" in scope["path"] or any(len(part) > _LONGEST_PART for part in scope["path"].split("/")):
            return 404, "there is nothing at this address."
        return 200, ""


class _OneLine(logging.Filter):
    """A message that the library of sockets cannot read is one line in the log, not a traceback.

    What the page's own handlers raise is caught and reported elsewhere, so nothing of ours is hidden by this.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and (record.name.startswith("engineio") or _of_sockets(error)):
            record.msg, record.args = "a message to the explorer was not understood: %s", (type(error).__name__,)
            record.exc_info = record.exc_text = None
        return True


def quiet_sockets() -> None:
    """No tracebacks for garbled messages, whoever sends them."""
    for name in ("engineio.server", "asyncio"):
        logging.getLogger(name).addFilter(_OneLine())


def _of_sockets(error: BaseException) -> bool:
    """Whether an error left a task in which python-socketio handles a message."""
    step = error.__traceback__
    while step is not None:
        if "socketio" in step.tb_frame.f_globals.get("__name__", ""):
            return True
        step = step.tb_next
    return False


def _packets(receive: Receive) -> Receive:
    """Messages of a socket as long as they look like Engine.IO; the first that does not is taken for a farewell."""

    async def checked() -> MutableMapping[str, Any]:
        message = await receive()
        if message["type"] == "websocket.receive" and not (message.get("text") or "x").startswith(tuple(_PACKETS)):
            return {"type": "websocket.disconnect", "code": 1003}
        return message

    return checked


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text[:60])
