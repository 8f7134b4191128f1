"""One server and one browser for all tests of the page; without a Chromium they are left out, and one line says so."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from measured_model import measurement
from websockets.sync.client import connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ARGUMENTS = ["--no-sandbox"]


class Server:
    """`sphereflow explore` in a process of its own; presets are not compiled ahead, to keep the tests short."""

    def __init__(self, log: Path, before: str = "") -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        program = before + "from sphereflow.explorer import serve; serve(port=0, browser=False, warm=False)"
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen([sys.executable, "-c", program], stdout=out, stderr=out, env=environment)
        deadline = time.monotonic() + 600
        while "http://" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.1)
        self.address = next(word for word in log.read_text().split() if word.startswith("http://"))
        while not self._listens():  # it names its address a moment before
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the server did not listen"
            time.sleep(0.1)

    def _listens(self) -> bool:
        place = urlsplit(self.address)
        with socket.socket() as probe:
            return probe.connect_ex((place.hostname, place.port)) == 0

    @contextmanager
    def visitor(self, query: str = "") -> Iterator[Any]:
        """A visitor without a browser: asks for the page, opens its socket, and is told of a run or of none."""
        page = urllib.request.urlopen(self.address + query, timeout=600).read().decode()
        name = re.search(r"client_id['\"]: ['\"]([0-9a-f-]{36})", page)[1]
        address = self.address.replace("http", "ws") + "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        asked = f"&client_id={name}&implicit_handshake=true&tab_id=t&document_id=d&next_message_id=0"
        with connect(address + asked, open_timeout=600, close_timeout=1) as opened:
            opened.send("40")
            while "/frames" not in (said := opened.recv(timeout=600)) and "too many" not in said:
                pass
            yield opened

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(600)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server") / "log.txt")
    yield running
    # Ctrl-C in the middle of a run ends the server in order.
    with running.visitor("?n=2000&d=4&beta=50"):
        assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()
    assert "FATAL" not in running.log.read_text()


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a measurement of heads."""
    folder = tmp_path_factory.mktemp("measurement")
    (folder / "measurement.nc").write_bytes(bytes(measurement().to_netcdf(engine="scipy")))
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("the tests of the page were left out: no Chromium was found", allow_module_level=False)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def visit(server: Server, browser: Any) -> Iterator[Callable[..., Any]]:
    """Open the page as a new visitor: visit("?n=16", width, height); console errors fail the test."""
    contexts, troubles = [], []

    def opened(query: str = "", width: int = 1200, height: int = 850, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(600_000)  # a guard: a busy machine is slow
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: troubles.append(said.text) if _complains(said) else None)
        page.on("response", lambda got: troubles.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        page.on("request", lambda sent: troubles.append(sent.url) if _outside(sent.url, server) else None)
        page.goto(server.address + query)
        page.wait_for_selector(".sf-player .sf-canvas, .tab-frame")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def _outside(url: str, server: Server) -> bool:
    """Whether something is loaded from elsewhere than the server itself."""
    return not url.startswith((server.address, server.address.replace("http", "ws"), "data:", "blob:"))


def _complains(said: Any) -> bool:
    """Errors and warnings, but for the remark of a browser without graphics card that it draws in software."""
    return said.type in ("error", "warning") and "GL Driver Message" not in said.text
