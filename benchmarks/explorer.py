"""How smoothly the page of `sphereflow explore` moves, and what it costs the server.

    python benchmarks/explorer.py            all sizes, about three minutes on two cores
    python benchmarks/explorer.py --quick    500 and 2,000 tokens, one visitor

A headless Chromium without a graphics card draws the page (WebGL in software), on the same cores that simulate. Frames
per second are animation frames in which tokens had moved, counted while the run plays and, where it is not yet
complete, while it is simulated.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import sync_playwright

from sphereflow.explorer.settings import Settings
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


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    sizes = (500, 2000) if quick else (500, 2000, 5000)
    smoothness(sizes, (1,) if quick else (1, 2))
    cost(sizes)
