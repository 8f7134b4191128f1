"""Who may speak to the server, and what becomes of garbage: real requests to a running server."""

from __future__ import annotations

import http.client
import re
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import Server
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sphereflow.explorer.guard import Names

pytestmark = pytest.mark.timeout(1800)  # a busy machine is slow
GUARD = 600  # seconds; nothing here depends on how fast the machine is


def answer(server: Server, path: str = "/", host: str | None = None, **headers: str) -> tuple[int, str]:
    """Status and text; the default host is the server's own."""
    own = urlsplit(server.address).netloc
    asked = http.client.HTTPConnection(own, timeout=GUARD)
    asked.putrequest("GET", path, skip_host=True)
    asked.putheader("Host", own if host is None else host)
    for name, value in headers.items():
        asked.putheader(name, value)
    asked.endheaders()
    got = asked.getresponse()
    text = got.read().decode("utf-8", "replace")
    asked.close()
    return got.status, text


def test_only_names_of_this_machine_are_answered(server):
    port = urlsplit(server.address).port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}", "localhost"):
        assert answer(server, "/run/x/frames", host)[0] == 200, host
    for host in ("evil.example", f"evil.example:{port}", "", "localhost.evil.example", "127.0.0.1.evil.example",
                 "10.0.0.7", "[::1", "localhost:port", "user@localhost", "[::2]"):  # fmt: skip
        status, text = answer(server, "/", host)
        assert status == 403, host
        assert text.startswith("sphereflow: this server is not called '")
        assert text.count("\n") == 1


def test_pages_from_elsewhere_are_refused(server):
    own = server.address.rstrip("/")
    assert answer(server, "/run/x/frames", Origin=own)[0] == 200
    for origin in ("http://evil.example", "null", "http://localhost:1", own + "0", own.replace("http", "file"), ""):
        status, text = answer(server, "/run/x/frames", Origin=origin)
        assert status == 403, origin
        assert "may not speak to this server" in text
    address = server.address.replace("http", "ws") + "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    with connect(address, origin=own, open_timeout=GUARD) as opened:
        assert opened.recv(timeout=GUARD).startswith("0{")
    for origin in ("http://evil.example", "null"):
        with pytest.raises(InvalidStatus, match="403"), connect(address, origin=origin, open_timeout=GUARD):
            pass
    assert answer(server, "/_nicegui_ws/socket.io/?EIO=4&transport=polling", Origin="http://evil.example")[0] == 403


def test_a_server_on_all_addresses_may_be_named_by_numbers():
    names = Names.of("0.0.0.0", ["Lab.example"])
    for host in ("192.168.1.5:8480", "[fe80::1]:8480", "lab.example", "localhost:9000"):
        assert names.refusal([host], [f"http://{host}"]) == "", host
    assert "not called 'evil.example'" in names.refusal(["evil.example"], [])
    assert names.refusal(["lab.example", "evil.example"], []) != ""
    assert Names.of("192.168.1.5").refusal(["192.168.1.6"], []) != ""
    assert Names.of("192.168.1.5").refusal(["192.168.1.5:8480"], []) == ""


def test_addresses_that_no_file_can_have_are_not_found(server):
    page = urllib.request.urlopen(server.address, timeout=GUARD).read().decode()
    folders = {found.rsplit("/", 1)[0] for found in re.findall(r"/_nicegui/[^\"'<> )]+/esm/[^\"'<> )]+/", page)}
    assert folders
    for folder in folders:
        for name in ("%00", "a%00b", "..%2f%00", "a" * 5000, "%ff"):
            assert answer(server, f"{folder}/{name}")[0] == 404, (folder, name[:9])


GARBAGE = (
    "garbage", b"\x00\xff", "4", "42", "42garbage", "42[]", '42["event"]', '42["event",1]', '42["event",{}]',
    '42["event",{"client_id":[]}]', '42["handshake",{}]', '42["handshake",[]]', '42["disconnect"]', '42["connect",1]',
    '42["connect",{"QUERY_STRING":"implicit_handshake=true"}]', "42" + "[" * 3000, "43[]", "44", '451-["event"]',
    "40/elsewhere,", "4" + "2" * 5000, "\u20ac",
)  # fmt: skip


def test_garbage_leaves_no_traceback_and_the_others_undisturbed(server):
    """That no traceback is in the log is checked when the server ends, and here once all has been answered."""
    address = server.address.replace("http", "ws") + "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    for message in GARBAGE:
        with connect(address, open_timeout=GUARD, close_timeout=1) as opened:
            opened.send("40")
            opened.send(message)
    for query in ("&implicit_handshake=true", "&implicit_handshake=true&client_id=x"):
        with connect(address + query, open_timeout=GUARD, close_timeout=1) as opened:
            opened.send("40")
    with server.visitor("?n=8&t1=1") as visitor:  # a real one, who also sends nonsense
        visitor.send('42["log",{"client_id":"x","level":"none"}]')
    with socket.create_connection(urlsplit(server.address).netloc.split(":"), timeout=GUARD) as raw:
        raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")
    assert answer(server, "/run/x/frames")[0] == 200
    assert "Traceback" not in server.log.read_text(errors="replace")


SMALL_HOUSE = """
from nicegui import ui
from sphereflow.explorer import page, scheduler
scheduler.MOST_RUNS, page._ASK_AGAIN = 1, 0.5
run = ui.run
ui.run = lambda **options: run(**options | {"reconnect_timeout": 1.0})
"""


@pytest.fixture
def small_house(tmp_path: Path) -> Iterator[Server]:
    """A server with a place for one run."""
    running = Server(tmp_path / "log.txt", SMALL_HOUSE)
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.mark.slow
def test_a_run_starts_with_a_visitor_and_who_finds_no_place_is_told_and_gets_the_next(small_house, browser):
    for _ in range(3):
        urllib.request.urlopen(small_house.address, timeout=GUARD).read()  # asks for the page and never comes
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(1000 * GUARD)
    with small_house.visitor("?n=8&t1=1"):
        page.goto(small_house.address + "?n=8&t1=1&seed=2")
        status = page.locator(".sf-status.sf-shown")
        status.filter(has_text="too many visitors are here at the moment; this page asks again by itself.").wait_for()
        assert page.evaluate("document.querySelector('.sf-player').dataset.frames") is None
    page.wait_for_function("Number(document.querySelector('.sf-player').dataset.frames) >= 121")
    page.wait_for_function("!document.querySelector('.sf-status').textContent.includes('visitors')")
    context.close()
