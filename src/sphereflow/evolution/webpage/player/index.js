// The player: a buffer of frames, a clock, the sphere and its charts, and the buttons under them.
//
// Frames arrive as bytes, from a server while it simulates (`load`) or from the page itself (`embed`); both come in the
// same layout, little-endian: time and energy (float64), clusters and size of the largest (uint32), the histogram of
// inner products (BINS of uint16), the cluster of each token (n of uint16), positions (3n of int16).

import { PALETTE, Sphere } from "./sphere.js";
import { ClusterChart, EnergyChart, OverlapChart, short } from "./charts.js";

const BINS = 40;
const HEAD = 24 + 2 * BINS;
const WHOLE_RUN_SECONDS = 12;
const CHART_SECONDS = 0.08;
const SPEEDS = [0.25, 0.5, 1, 2, 4];

const ICONS = {
  play: "M7 4.5v15l12.5-7.5z",
  pause: "M6.5 4.5h4v15h-4zM13.5 4.5h4v15h-4z",
  restart: "M12 4.5V1L6.5 6 12 11V7.5a5.5 5.5 0 1 1-5.5 5.5h-3A8.5 8.5 0 1 0 12 4.5z",
};

export class Player {
  // With a `leader`, another player, this one shows its run at the leader's place and from the leader's side.
  constructor(root, { onSpeed = () => {}, leader = null } = {}) {
    this.root = root;
    this.onSpeed = onSpeed;
    this.leader = leader;
    this.playing = true;
    this.speed = 1;
    this.run = null;
    this.position = 0;
    this.drawn = 0;
    root.classList.add("sf-player");
    root.innerHTML = layout();
    const one = (name) => root.querySelector(`.sf-${name}`);
    this.parts = Object.fromEntries(
      ["stage", "status", "clock", "count", "note", "toggle", "restart", "time", "speed", "curve"].map((name) => [name, one(name)]),
    );
    this.sphere = new Sphere(this.parts.stage);
    this.charts = [
      new EnergyChart(one("energy")), new OverlapChart(one("overlap")), new ClusterChart(one("clusters")),
    ];
    this.parts.toggle.addEventListener("click", () => this.toggle());
    this.parts.restart.addEventListener("click", () => this.restart());
    this.parts.time.addEventListener("input", () => this.seek(Number(this.parts.time.value)));
    this.parts.speed.addEventListener("change", () => {
      this.setSpeed(Number(this.parts.speed.value));
      this.onSpeed(this.speed);
    });
    this.onKey = (event) => this.key(event);
    if (leader) {
      root.classList.add("sf-follower");
      this.sphere.turn = (...way) => leader.sphere.turn(...way);
    } else document.addEventListener("keydown", this.onKey);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => this.sphere.restyle();
    this.scheme.addEventListener("change", this.restyle);
    this.watcher = new MutationObserver(this.restyle);
    this.watcher.observe(document.body, { attributeFilter: ["class"] });
    this.last = performance.now();
    this.alive = true;
    const turn = (now) => {
      if (!this.alive) return;
      const hidden = this.root.offsetParent === null; // behind another tab of the page
      if (!hidden) this.tick(Math.max(0, Math.min((now - this.last) / 1000, 0.2))); // the first turn may lie in the past
      this.last = now;
      requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }

  close() {
    this.alive = false;
    this.fetching?.abort();
    this.watcher.disconnect();
    this.scheme.removeEventListener("change", this.restyle);
    document.removeEventListener("keydown", this.onKey);
  }

  // --- frames -----------------------------------------------------------------------------------------------------

  // `about`: n, frames (how many there will be), flat, onSphere, unit, logarithmic, firstTime, lastTime, curve, note,
  // words. `colours`, one slot of the palette per token, stand for those of clusters; `bare` leaves out what is said of
  // clusters and pairs, and with no `curve` the energy too.
  open(about) {
    this.fetching?.abort();
    // The first `fine` frames are accurate, and later ones rough, until they are replaced. Both know clusters by names of
    // their own, and so have slots of their own for the colours of these.
    this.run = {
      ...about, times: [], energy: [], clusters: [], alone: [], largest: [], overlaps: [], points: [], looks: [],
      fine: 0, slots: new Map(), roughSlots: new Map(), done: false, left: 0, sharing: 1,
    };
    this.position = 0;
    this.message = "";
    this.sphere.begin(about);
    this.sphere.canvas.setAttribute("aria-label", `${about.words}. Arrow keys turn the view.`);
    this.root.classList.toggle("sf-bare", !!about.bare);
    this.root.classList.toggle("sf-alone", !!about.bare && !about.curve);
    this.parts.note.textContent = about.note;
    this.parts.curve.textContent = about.curve;
    this.parts.time.max = about.frames - 1;
    this.redraw = true;
  }

  // Ask the server for frames until there are no more; an answer waits there until something is ready.
  async load(about, address) {
    this.open(about);
    const mine = (this.fetching = new AbortController());
    const { run } = this;
    try {
      while (!run.done) {
        const answer = await patiently(`${address}?from=${run.fine}&rough=${run.times.length}`, mine.signal);
        if (!answer.ok) throw new Error("the server no longer knows this run; reload the page");
        const bytes = await answer.arrayBuffer();
        const [state, fine, rough, place, left, sharing] = new Uint32Array(bytes, 0, 6);
        if (state === 2) throw new Error(new TextDecoder().decode(new Uint8Array(bytes, 24)));
        const rest = this.put(bytes, 24, run.fine, fine, run.slots);
        run.fine += fine;
        this.put(bytes, rest, place, rough, run.roughSlots);
        [run.left, run.sharing] = [left, sharing];
        run.done = state === 1;
      }
    } catch (error) {
      if (mine.signal.aborted || run !== this.run) return;
      this.message = error.message;
    }
  }

  embed(about, base64) {
    this.open(about);
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer;
    this.run.fine = about.frames;
    this.put(bytes, 0, 0, about.frames, this.run.slots);
    this.run.done = true;
  }

  // `count` frames become those from number `place` on; returns where they end in the bytes.
  put(bytes, start, place, count, slots) {
    const { run } = this;
    const { n } = run;
    const size = HEAD + 8 * n;
    for (let k = 0; k < count; k++) {
      const at = start + k * size;
      const i = place + k;
      [run.times[i], run.energy[i]] = new Float64Array(bytes, at, 2);
      [run.clusters[i], run.largest[i]] = new Uint32Array(bytes, at + 16, 2);
      run.overlaps[i] = new Uint16Array(bytes, at + 24, BINS);
      const { look, alone } = appearance(new Uint16Array(bytes, at + HEAD, n), n, slots);
      if (run.colours) run.colours.forEach((slot, token) => (look[4 * token] = slot));
      if (run.bare) for (let token = 0; token < n; token++) look[4 * token + 1] = 16;
      run.looks[i] = look;
      run.alone[i] = alone;
      run.points[i] = new Int16Array(bytes, at + HEAD + 2 * n, 3 * n);
    }
    this.redraw = true;
    return start + count * size;
  }

  // --- the clock --------------------------------------------------------------------------------------------------

  tick(seconds) {
    const { run, parts } = this;
    if (!run || !run.times.length) return this.say(...this.words(run, true));
    const end = run.times.length - 1;
    const final = end === run.frames - 1;
    if (this.leader) this.follow(end);
    else if (this.playing) {
      this.position = Math.min(this.position + (seconds * this.speed * (run.frames - 1)) / WHOLE_RUN_SECONDS, end);
    }
    const k = Math.min(Math.floor(this.position), end);
    const next = Math.min(k + 1, end);
    if (!this.leader) this.sphere.idleTurn(seconds);
    this.sphere.frames(run.points[k], run.points[next], run.looks[k]);
    this.sphere.draw(this.position - k);
    this.say(...this.words(run, this.playing && this.position >= end && !final && !run.done));
    if (!this.leader && this.playing && this.position >= end && (final || run.done)) this.setPlaying(false);
    this.drawn += seconds;
    if (this.drawn < CHART_SECONDS || !(this.playing || this.redraw)) return;
    this.drawn = 0;
    this.redraw = false;
    const shown = this.charts.filter((chart) => chart.canvas.offsetParent);
    for (const chart of shown) chart.draw(run, Math.min(this.position, end));
    const t = this.time();
    parts.clock.textContent = `t = ${t === 0 ? "0" : t >= 1e5 ? short(t) : t.toPrecision(3)}`;
    const share = Math.round((100 * run.largest[k]) / run.n);
    const alone = run.alone[k];
    const together = run.clusters[k] - alone;
    const words = [`${together} cluster${together === 1 ? "" : "s"}`];
    if (alone) words.push(`${alone} alone`);
    if (together) words.push(`largest ${share}%`);
    parts.count.textContent = run.bare ? "" : words.join(" · ");
    this.root.dataset.clusters = run.clusters[k];
    this.root.dataset.frames = run.fine;
    this.root.dataset.moving = run.times.length;
    if (document.activeElement !== parts.time || this.playing) parts.time.value = this.position;
    parts.time.style.setProperty("--done", `${(100 * this.position) / (run.frames - 1)}%`);
    parts.time.style.setProperty("--rough", `${(100 * end) / (run.frames - 1)}%`);
    parts.time.style.setProperty("--ready", `${(100 * Math.max(run.fine - 1, 0)) / (run.frames - 1)}%`);
    parts.time.setAttribute("aria-valuetext", parts.clock.textContent);
  }

  follow(end) {
    const position = Math.min(this.leader.position, end);
    this.redraw ||= position !== this.position;
    this.position = position;
    this.playing = this.leader.playing;
    Object.assign(this.sphere, { yaw: this.leader.sphere.yaw, pitch: this.leader.sphere.pitch });
  }

  time() {
    const { times, logarithmic } = this.run;
    const k = Math.min(Math.floor(this.position), times.length - 1);
    const next = Math.min(k + 1, times.length - 1);
    const part = this.position - k;
    if (logarithmic && times[k] > 0) return times[k] * (times[next] / times[k]) ** part;
    return times[k] + part * (times[next] - times[k]);
  }

  // What to say, and how far it is; `stuck` if the clock waits for a frame.
  words(run, stuck) {
    if (this.message) return [this.message];
    if (!run) return [""];
    if (!run.times.length) return ["drawing the first tokens"];
    if (stuck) return ["simulating", `${run.fine} of ${run.frames} frames`];
    return [""];
  }

  // True where the tokens on the screen are those of a rough run, which will be replaced.
  get rough() {
    const { run } = this;
    return !!run && run.fine < run.times.length && Math.ceil(this.position) >= run.fine;
  }

  // Numbers that change every second are not read aloud.
  say(text, progress = "") {
    if (this.said === text + progress) return;
    this.said = text + progress;
    const [spoken, counted] = this.parts.status.children;
    if (spoken.textContent !== text) spoken.textContent = text;
    counted.textContent = progress && ` · ${progress}`;
    this.parts.status.classList.toggle("sf-shown", text !== "");
  }

  // --- buttons and keys -------------------------------------------------------------------------------------------

  setPlaying(playing) {
    this.playing = playing;
    this.redraw = true;
    this.parts.toggle.innerHTML = icon(playing ? "pause" : "play");
    this.parts.toggle.setAttribute("aria-label", playing ? "Pause (space)" : "Play (space)");
    this.parts.toggle.title = playing ? "Pause (space)" : "Play (space)";
  }

  toggle() {
    if (!this.playing && this.run && this.position >= this.run.frames - 1.001) this.position = 0;
    this.setPlaying(!this.playing);
  }

  restart() {
    this.position = 0;
    this.setPlaying(true);
  }

  seek(position) {
    if (!this.run) return;
    this.position = Math.min(position, this.run.times.length - 1);
    this.setPlaying(false);
  }

  setSpeed(speed) {
    this.speed = SPEEDS.includes(speed) ? speed : 1;
    this.parts.speed.value = String(this.speed);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.root.offsetParent) return;
    const { target } = event;
    const typing = target.closest?.("input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=dialog]");
    const pressing = target.closest?.("button, a, [role=tab], [role=switch], [role=radio], [role=option]");
    if (event.key === " " && !typing && !pressing) this.toggle();
    else if (event.key.toLowerCase() === "r" && !typing) this.restart();
    else return;
    event.preventDefault();
  }

  // --- a picture --------------------------------------------------------------------------------------------------

  // The sphere as it stands, with its time and a caption, as a PNG of 1600 pixels.
  async picture(caption) {
    const size = 1600;
    const canvas = Object.assign(document.createElement("canvas"), { width: size, height: size });
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(this.root);
    const named = (name) => style.getPropertyValue(name).trim();
    pen.fillStyle = named("--sf-ground");
    pen.fillRect(0, 0, size, size);
    const { sphere } = this;
    const side = Math.min(sphere.canvas.width, sphere.canvas.height);
    const [left, top] = [(sphere.canvas.width - side) / 2, (sphere.canvas.height - side) / 2];
    const shown = 0.9 * size;
    if (!sphere.flat) {
      const radius = (shown * sphere.radius() * sphere.unit) / Math.min(sphere.width, sphere.height);
      const shade = pen.createRadialGradient(size * 0.42, size * 0.36, 0, size / 2, size * 0.48, radius);
      shade.addColorStop(0, named("--sf-ball-light"));
      shade.addColorStop(1, named("--sf-ball-dark"));
      pen.fillStyle = shade;
      pen.beginPath();
      pen.arc(size / 2, size * 0.03 + shown / 2, radius, 0, 7);
      pen.fill();
    }
    sphere.draw(sphere.part); // a WebGL canvas can be read only in the turn in which it was drawn
    pen.drawImage(sphere.canvas, left, top, side, side, 0.05 * size, 0.03 * size, shown, shown);
    pen.fillStyle = named("--sf-ink");
    pen.font = "600 40px system-ui, sans-serif";
    pen.textAlign = "center";
    const preview = this.rough ? "preview   ·   " : ""; // nobody shall take it for the accurate run
    pen.fillText(`${preview}${this.parts.clock.textContent}   ·   ${this.parts.count.textContent}`, size / 2, size - 84);
    pen.fillStyle = named("--sf-quiet");
    pen.font = "30px system-ui, sans-serif";
    pen.fillText(caption, size / 2, size - 36, size - 80);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  async savePicture(caption, name) {
    const address = URL.createObjectURL(await this.picture(caption));
    Object.assign(document.createElement("a"), { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}

// A connection that is lost for a moment is not the end of a run.
async function patiently(address, signal, attempts = 5) {
  for (let k = 1; ; k++) {
    try {
      return await fetch(address, { signal });
    } catch (error) {
      if (signal.aborted || k === attempts) throw signal.aborted ? error : new Error("the server does not answer; reload the page");
      await new Promise((resolve) => setTimeout(resolve, 1000 * k));
    }
  }
}

// Colour slot and size (in sixteenths) of every token, and how many tokens are alone: clusters of some mass have a
// colour and larger dots.
// `slots` remembers the colours from frame to frame; a new cluster takes the colour that is least in use.
function appearance(clusters, n, slots) {
  const sizes = new Map();
  for (const id of clusters) sizes.set(id, (sizes.get(id) ?? 0) + 1);
  const worthy = n <= 12 ? 1 : Math.max(2, Math.ceil(n / 150));
  const used = new Array(PALETTE.length).fill(0);
  for (const [id, slot] of slots) {
    if ((sizes.get(id) ?? 0) < worthy) slots.delete(id);
    else used[slot] += sizes.get(id);
  }
  for (const [id, size] of [...sizes].sort((a, b) => b[1] - a[1])) {
    if (size < worthy) break;
    if (slots.has(id)) continue;
    let free = 1;
    for (let k = 2; k < used.length; k++) if (used[k] < used[free]) free = k;
    slots.set(id, free);
    used[free] += size;
  }
  const look = new Uint8Array(4 * n);
  clusters.forEach((id, i) => {
    look[4 * i] = slots.get(id) ?? 0;
    look[4 * i + 1] = Math.round(16 * Math.min(2.6, 1 + 0.2 * Math.log2(sizes.get(id))));
  });
  return { look, alone: [...sizes.values()].filter((size) => size === 1).length };
}

function icon(name) {
  return `<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><path fill="currentColor" d="${ICONS[name]}"/></svg>`;
}

function layout() {
  const figure = (name, title, label) =>
    `<figure class="sf-figure sf-of-${name}"><figcaption>${title}</figcaption>` +
    `<canvas class="sf-chart sf-${name}" role="img" aria-label="${label}"></canvas></figure>`;
  return `
<div class="sf-main">
  <div class="sf-stage">
    <div class="sf-readout"><span class="sf-clock">t = 0</span><span class="sf-count"></span></div>
    <div class="sf-status"><span role="status" aria-live="polite"></span><span></span></div>
    <div class="sf-note"></div>
  </div>
  <div class="sf-transport" role="group" aria-label="Playback">
    <button type="button" class="sf-button sf-restart" aria-label="Restart (r)" title="Restart (r)">${icon("restart")}</button>
    <button type="button" class="sf-button sf-toggle" aria-label="Pause (space)" title="Pause (space)">${icon("pause")}</button>
    <input type="range" class="sf-time" min="0" max="1" step="any" value="0" aria-label="Time">
    <select class="sf-speed" aria-label="Speed">${SPEEDS.map((s) => `<option value="${s}"${s === 1 ? " selected" : ""}>${s}×</option>`).join("")}</select>
  </div>
</div>
<div class="sf-charts">
  ${figure("energy", '<span class="sf-curve">Energy</span>', "Energy against time")}
  ${figure("overlap", "Inner products of pairs", "Histogram of the inner products of pairs of tokens")}
  ${figure("clusters", "Clusters and single tokens, log time", "Number of clusters and single tokens against logarithmic time; dots are mergers")}
</div>`;
}
