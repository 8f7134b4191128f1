"""`sphereflow explore`: a local web page with the sphere, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any that is free.")] = 8480,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default can be reached from this machine only.")
    ] = "127.0.0.1",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Another name by which browsers ask for the page, say of a proxy; repeatable."
        ),
    ] = None,
    heads: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What sphereflow measure wrote, for the tab of heads.")
    ] = None,
    browser: Annotated[bool, typer.Option("--open/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open a page with the sphere, live: sliders, papers to start from, links to share.

    Ctrl-C stops it.

    Example: sphereflow explore --port 8480
    """
    from sphereflow.explorer import serve

    serve(host, port, allow=allow or (), heads=heads, browser=browser)
