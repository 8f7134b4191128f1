"""How smoothly the page of `sphereflow explore` moves, and what it costs the server.

    python benchmarks/explorer.py             all sizes, about three minutes on two cores
    python benchmarks/explorer.py --quick     500 and 2,000 tokens, one visitor
    python benchmarks/explorer.py --first     when tokens first move, at 64, 1,000 and 5,000
    python benchmarks/explorer.py --visitors  100 visitors at once, and 200

A headless Chromium without a graphics card draws the page (WebGL in software), on the same cores that simulate. Frames
per second are animation frames in which tokens had moved, counted while the run plays and, where it is not yet
complete, while it is simulated.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import sync_playwright
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sphereflow.explorer.models import first_tokens
from sphereflow.explorer.presets import PRESETS
from sphereflow.explorer.preview import rough_frames
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import frames

SECONDS = 4
PROGRAM = "from sphereflow.explorer import serve; serve(port=0, browser=False, warm=False)"
CHROMIUM = ["--no-sandbox"]
COUNT = """(seconds) => new Promise((resolve) => {
  const player = document.querySelector('.sf-player').__player;
  let [moved, all, before, longest, last] = [0, 0, -1, 0, performance.now()];
  const start = last;
  const turn = (now) => {
    all += 1;
    longest = Math.max(longest, now - last);
    last = now;
    if (player.position !== before) moved += 1;
    before = player.position;
    if (now - start < 1000 * seconds) requestAnimationFrame(turn);
    else resolve([moved / seconds, all / seconds, longest]);
  };
  player.restart();
  requestAnimationFrame(turn);
})"""


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("no Chromium was found")
    return found


def start_server() -> tuple[subprocess.Popen, str]:
    server = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    return server, next(word for word in line.split() if word.startswith("http://"))


def smoothness(sizes: tuple[int, ...], visitors: tuple[int, ...]) -> None:
    print(
        "| tokens | visitors | frames/s | longest wait, ms | browser, processor ms per frame | frames/s per free core |"
    )
    print("|---|---|---|---|---|---|")
    server, address = start_server()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM)
            for n in sizes:
                for count in visitors:
                    print("| " + " | ".join(one_size(browser, address, n, count)) + " |", flush=True)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def one_size(browser, address: str, n: int, visitors: int) -> list[str]:
    """The first visitor is measured; the others watch runs of the same size, with other seeds."""
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(visitors)]
    pages = [context.new_page() for context in contexts]
    for seed, page in enumerate(pages):
        page.goto(f"{address}?model=sa&n={n}&d=3&beta=9&t1=100&seed={seed}")
    # Enough is ready for the seconds that are counted; the rest is simulated meanwhile.
    ready = "Number(document.querySelector('.sf-player')?.dataset.frames) >= 41"
    for page in reversed(pages):
        page.wait_for_function(ready, timeout=240_000)
    for page in pages[1:]:
        page.evaluate("document.querySelector('.sf-player').__player.restart()")
    before = browser_seconds()
    moved, every, longest = pages[0].evaluate(COUNT, SECONDS)
    spent = (browser_seconds() - before) / (every * SECONDS * visitors)
    for context in contexts:
        context.close()
    return [f"{n:,}", str(visitors), f"{moved:.0f}", f"{longest:.0f}", f"{1e3 * spent:.1f}", f"{1 / spent:.0f}"]


def browser_seconds() -> float:
    """Processor time of all processes of the browser: those below this one that are not Python."""
    parents, seconds, names = {}, {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                parts = rest.split()
                parents[int(entry.name)], names[int(entry.name)] = int(parts[1]), name
                seconds[int(entry.name)] = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid, name in names.items():
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        total += seconds[pid] if above == os.getpid() and "chrom" in name else 0.0
    return total


def cost(sizes: tuple[int, ...]) -> None:
    print("\n| tokens | first tokens, ms | compilation, processor s | per saved frame, processor ms |")
    print("|---|---|---|---|")
    for n in sizes:
        turns = frames(Settings(n=n, d=3, beta=9.0, t1=100.0))
        began = time.process_time()
        next(turns)
        first = time.process_time() - began
        next(turns)
        compiled = time.process_time() - began - first
        began, count = time.process_time(), 0
        for turn in turns:
            count += len(turn)
        each = 1e3 * (time.process_time() - began) / count
        print(f"| {n:,} | {1e3 * first:.0f} | {compiled:.1f} | {each:.1f} |", flush=True)


def first_frames(sizes: tuple[int, ...]) -> None:
    """What has to be computed before tokens move, in processor seconds of one process in which nothing is compiled."""
    print("| tokens | beta | draw the first tokens | first rough frame | first accurate frame, compiled anew |")
    print("|---|---|---|---|---|")
    for n in sizes:
        for beta in (1.0, 9.0, 100.0):
            s = Settings(n=n, d=3, beta=beta, t1=100.0)
            began = time.process_time()
            x0 = first_tokens(s)
            drawn = time.process_time() - began
            began = time.process_time()
            next(filter(None, rough_frames(s, x0)))
            rough = time.process_time() - began
            turns = frames(s, x0)
            next(turns)
            began = time.process_time()
            next(turns)
            accurate = time.process_time() - began
            print(f"| {n:,} | {beta:g} | {drawn:.2f} | {rough:.2f} | {accurate:.2f} |", flush=True)


@dataclass
class Guest:
    """What a visitor without a browser has seen, in seconds since asking for the page."""

    query: str
    told: str = ""
    page: float = math.nan
    tokens: float = math.nan
    moving: float = math.nan
    accurate: float = math.nan
    rough: int = 0
    fine: int = 0
    arrivals: list[float] = field(default_factory=list)


async def visit(guest: Guest, address: str, seconds: float) -> None:
    """Ask for the page, open its socket, and fetch frames as the player does."""
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=600) as web:
        page = (await web.get(address + guest.query)).text
        guest.page = time.monotonic() - began
        name = re.search(r"client_id['\"]: ['\"]([0-9a-f-]{36})", page)[1]
        socket = address.replace("http", "ws") + "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        asked = f"&client_id={name}&implicit_handshake=true&tab_id=t&document_id=d&next_message_id=0"
        async with connect(socket + asked, open_timeout=600, ping_interval=None) as opened:
            await opened.send("40")
            heard = ""
            while not (found := re.search(r"/run/[\w-]+/frames", heard)):
                heard = str(await opened.recv())
                if heard == "2":
                    await opened.send("3")
                if said := re.search(r"too many visitors[^\"]*|the runs of all visitors[^\"]*", heard):
                    guest.told = said[0]
                    return
            alive = asyncio.ensure_future(_answer_pings(opened))
            while time.monotonic() - began < seconds and guest.fine < INTERVALS + 1:
                have = f"?from={guest.fine}&rough={max(guest.rough, guest.fine)}"
                try:
                    answer = (await web.get(address.rstrip("/") + found[0] + have)).content
                except httpx.TransportError:  # an idle connection was closed; a browser asks again by itself
                    continue
                _, fine, rough, place, *_ = struct.unpack_from("<6I", answer)
                now = time.monotonic() - began
                guest.fine += fine
                guest.rough = max(guest.rough, place + rough if rough else 0, guest.fine)
                guest.arrivals += [now] if fine + rough else []
                guest.tokens = min(now, guest.tokens) if guest.tokens == guest.tokens else now
                if guest.rough > 1 and math.isnan(guest.moving):
                    guest.moving = now
                if guest.fine > 1 and math.isnan(guest.accurate):
                    guest.accurate = now
            alive.cancel()


async def _answer_pings(opened: Any) -> None:
    with suppress(ConnectionClosed):
        async for message in opened:
            if message == "2":
                await opened.send("3")


def visitors(count: int, name: str, query: Callable[[int], str], seconds: float = 60.0) -> None:
    """So many visitors within a second, each for so many seconds or until the run is whole."""
    server, address = start_server()
    try:
        place = Path(f"/proc/{server.pid}")

        def spent() -> float:
            parts = (place / "stat").read_text().rsplit(")", 1)[1].split()
            return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

        def size() -> float:
            return int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

        guests, before, small = [Guest(query(k)) for k in range(count)], spent(), size()

        async def everyone() -> None:
            await asyncio.gather(*(visit(guest, address, seconds) for guest in guests))

        began = time.monotonic()
        asyncio.run(everyone())
        took = time.monotonic() - began
        used = spent() - before
        seen = [guest for guest in guests if not guest.told]
        gaps = [max(np.diff(guest.arrivals), default=0.0) for guest in seen]
        columns = [[getattr(guest, each) for guest in seen] for each in ("page", "tokens", "moving", "accurate")]
        told = [f"{np.nanmedian(each):.1f} / {np.nanmax(each):.1f}" for each in columns]
        whole = sum(guest.fine == INTERVALS + 1 for guest in seen)
        cells = [name, str(count), str(len(seen)), *told, f"{np.median(gaps):.1f}", str(whole)]
        cells += [f"{used:.0f} of {2 * took:.0f}", f"{small:.0f} to {size():.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        for sentence in {guest.told for guest in guests if guest.told}:
            print(f"  told: {sentence}")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def crowds() -> None:
    print(
        "| visitors ask for | visitors | have a run | page, s | first tokens, s | tokens move, s | accurate, s | "
        "longest wait between frames, s | runs complete | processor s | server, MB |"
    )
    print("|" + "---|" * 11)
    visitors(100, "one of eight papers", lambda k: f"?preset={PRESETS[k % len(PRESETS)].slug}")
    visitors(100, "each another run of 300 tokens", lambda k: f"?n=300&d=3&beta=4&t1=1000&seed={k}")
    visitors(200, "the same, 200 of them", lambda k: f"?n=300&d=3&beta=4&t1=1000&seed={k}")


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    sizes = (500, 2000) if quick else (500, 2000, 5000)
    if "--visitors" in sys.argv:
        crowds()
    elif "--first" in sys.argv:
        first_frames((64, 1000, 5000))
    else:
        smoothness(sizes, (1,) if quick else (1, 2))
        cost(sizes)
