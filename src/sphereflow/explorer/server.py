"""The local web server of the explorer: started by `sphereflow explore`, stopped by Ctrl-C."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sphereflow.errors import MissingExtra, SphereflowError, whole_number

DEFAULT_PORT = 8480
LOCAL = "127.0.0.1"


def serve(
    host: str = LOCAL,
    port: int = DEFAULT_PORT,
    *,
    allow: Sequence[str] = (),
    heads: Path | None = None,
    browser: bool = True,
    warm: bool = True,
) -> None:
    """Serve the page until Ctrl-C.

    `port=0` takes any free one; `allow` are more names under which the page may be asked for (say, of a proxy);
    `heads` is a result of `sphereflow measure` to show; `browser` opens the page; `warm` compiles the presets while
    nobody waits for anything.
    """
    whole_number("port", port, least=0, most=65_535)
    free = _free_port(host, port)
    try:
        from nicegui import app, ui
    except ImportError:
        raise MissingExtra("nicegui", "explore", "the explorer") from None
    if heads is not None:
        from sphereflow.explorer.tabs import heads as tab

        tab.measured(heads)
    shown = LOCAL if host in ("0.0.0.0", "::", "") else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{free}/"

    from sphereflow.explorer.guard import Guard, Names, quiet_sockets
    from sphereflow.explorer.page import add_page
    from sphereflow.explorer.presets import PRESETS
    from sphereflow.explorer.routes import add_routes
    from sphereflow.explorer.scheduler import RunScheduler

    scheduler = RunScheduler()
    app.add_middleware(Guard, names=Names.of(host, allow))
    quiet_sockets()
    add_routes(app, scheduler)
    add_page(scheduler)

    def ready() -> None:
        print(f"sphereflow explorer: {address}  (Ctrl-C stops it)", flush=True)
        if warm:
            scheduler.warm(preset.settings for preset in PRESETS)

    app.on_startup(ready)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        ui.run(
            host=host,
            port=free,
            title="sphereflow",
            reload=False,
            show=browser,
            show_welcome_message=False,
            dark=None,
            tailwind=False,
            favicon=_FAVICON,
            binding_refresh_interval=None,
            reconnect_timeout=8.0,
            storage_secret=secrets.token_urlsafe(32),  # of the cookie by which pages of one browser are counted
        )
    if not scheduler.close():
        # A thread is still within compiled code, which must not be taken apart around it.
        sys.stdout.flush()
        os._exit(0)


def _free_port(host: str, port: int) -> int:
    """The port to use, or a sentence why it cannot be had."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except socket.gaierror:
            raise SphereflowError(f"--host must be an address of this machine, got {host!r}.") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                advice = "choose another with --port, or --port 0 for any that is free"
                raise SphereflowError(f"port {port} is in use already; {advice}.") from None
            raise SphereflowError(f"cannot listen on {host}, port {port}: {error.strerror or error}.") from None
        return probe.getsockname()[1]


_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="14" fill="#2f5fd0"/>'
    '<circle cx="11" cy="12" r="3.4" fill="#ffc04d"/><circle cx="20" cy="20" r="4.2" fill="#fff"/></svg>'
)
