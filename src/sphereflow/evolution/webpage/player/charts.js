// Three small charts that follow the run: energy, inner products of pairs, number of clusters on logarithmic time.

const PAD = { left: 46, right: 12, top: 10, bottom: 24 };

class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    new ResizeObserver(() => (this.stale = true)).observe(canvas);
  }

  begin() {
    const density = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (this.canvas.width !== Math.round(width * density)) this.canvas.width = Math.round(width * density);
    if (this.canvas.height !== Math.round(height * density)) this.canvas.height = Math.round(height * density);
    this.area = { left: PAD.left, right: width - PAD.right, top: PAD.top, bottom: height - PAD.bottom };
    const style = getComputedStyle(this.canvas);
    const named = (name) => style.getPropertyValue(name).trim();
    this.ink = { text: named("--sf-quiet"), rule: named("--sf-rule"), line: named("--sf-accent"), ground: named("--sf-panel") };
    this.pen.setTransform(density, 0, 0, density, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.pen.font = "11px system-ui, sans-serif";
    this.pen.lineJoin = "round";
  }

  // Ticks and faint rules; `x` and `y` map values to pixels, ticks are [value, label].
  axes(x, y, ticksX, ticksY) {
    const { pen, area, ink } = this;
    pen.strokeStyle = ink.rule;
    pen.fillStyle = ink.text;
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [value, label] of ticksY) {
      const at = Math.round(y(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(area.left, at);
      pen.lineTo(area.right, at);
      pen.stroke();
      pen.fillText(label, area.left - 6, at);
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const [value, label] of ticksX) {
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.min(x(value), area.right + PAD.right - half - 1), area.bottom + 7);
    }
  }

  path(points, colour, width) {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
  }

  dot(x, y, radius = 4) {
    const { pen, ink } = this;
    pen.fillStyle = ink.line;
    pen.strokeStyle = ink.ground;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fill();
    if (radius > 3) pen.stroke();
  }
}

// A map from times to pixels, with ticks; on a logarithmic axis time zero sits at the left end.
export function timeAxis(first, last, area, logarithmic) {
  if (!logarithmic) {
    const map = (t) => area.left + ((area.right - area.left) * t) / last;
    return [map, niceTicks(0, last, 4).map((t) => [t, short(t)])];
  }
  const [low, high] = [Math.log10(first), Math.log10(last)];
  const map = (t) => area.left + ((area.right - area.left) * (Math.log10(Math.max(t, first)) - low)) / (high - low);
  const ticks = [];
  const every = Math.max(1, Math.ceil((high - low) / 5));
  for (let k = Math.ceil(low - 1e-9); k <= high + 1e-9; k += every) ticks.push([10 ** k, power(k)]);
  return [map, ticks];
}

export class EnergyChart extends Chart {
  draw(run, position) {
    this.begin();
    const values = run.energy.filter(Number.isFinite);
    if (values.length < 2) return;
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (high - low < 1e-9 * Math.max(Math.abs(high), 1e-9)) [low, high] = [low - 1e-3, high + 1e-3];
    const span = high - low;
    const y = (v) => this.area.bottom - ((v - low + 0.04 * span) / (1.12 * span)) * (this.area.bottom - this.area.top);
    const [x, ticks] = timeAxis(run.firstTime, run.lastTime, this.area, run.logarithmic);
    this.axes(x, y, ticks, niceTicks(low, high, 3).map((v) => [v, short(v)]));
    const points = run.times.map((t, k) => [x(t), y(run.energy[k])]);
    const now = between(run, position, points);
    this.pen.globalAlpha = 0.3;
    this.path(points.slice(Math.floor(position)), this.ink.line, 1.5);
    this.pen.globalAlpha = 1;
    this.path([...points.slice(0, Math.floor(position) + 1), now], this.ink.line, 2);
    this.dot(...now);
  }
}

export class OverlapChart extends Chart {
  draw(run, position) {
    this.begin();
    const counts = run.overlaps[Math.floor(position)];
    if (!counts) return;
    const { area, pen, ink } = this;
    const bins = counts.length;
    const x = (v) => area.left + ((v + 1) / 2) * (area.right - area.left);
    // Square roots keep the rare pairs visible beside the peak at 1.
    const y = (share) => area.bottom - Math.sqrt(share) * (area.bottom - area.top);
    this.axes(x, y, [-1, -0.5, 0, 0.5, 1].map((v) => [v, String(v).replace("-", "−")]), [0, 0.1, 0.5, 1].map((v) => [v, `${100 * v}%`]));
    pen.fillStyle = ink.line;
    const wide = (area.right - area.left) / bins;
    for (let k = 0; k < bins; k++) {
      const top = y(counts[k] / 65535);
      pen.globalAlpha = 0.45 + 0.55 * (k / bins);
      pen.fillRect(area.left + k * wide + 0.5, top, Math.max(wide - 1, 1), area.bottom - top);
    }
    pen.globalAlpha = 1;
  }
}

export class ClusterChart extends Chart {
  draw(run, position) {
    this.begin();
    if (run.times.length < 2) return;
    const most = Math.max(...run.clusters, 2);
    const y = (c) => this.area.bottom - (Math.log(Math.max(c, 1)) / Math.log(most)) * (this.area.bottom - this.area.top);
    const [x, ticks] = timeAxis(run.firstTime, run.lastTime, this.area, true);
    const levels = most <= 12 ? [1, 2, 4, 8] : [1, 10, 100, 1000];
    this.axes(x, y, ticks, levels.filter((v) => v <= most).map((v) => [v, short(v)]));
    const stairs = (from, to) => {
      const points = [];
      for (let k = from; k <= to; k++) {
        if (k > from) points.push([x(run.times[k]), y(run.clusters[k - 1])]);
        points.push([x(run.times[k]), y(run.clusters[k])]);
      }
      return points;
    };
    const now = Math.floor(position);
    this.pen.globalAlpha = 0.3;
    this.path(stairs(now, run.times.length - 1), this.ink.line, 1.5);
    this.pen.globalAlpha = 1;
    const place = [between(run, position, run.times.map((t) => [x(t), 0]))[0], y(run.clusters[now])];
    this.path([...stairs(0, now), place], this.ink.line, 2);
    for (let k = 1; k <= now; k++) {
      // Mergers of the crowd at the start are too many to mark; the last ones are the story.
      if (run.clusters[k] < run.clusters[k - 1] && run.clusters[k] <= 12) this.dot(x(run.times[k]), y(run.clusters[k]), 2.8);
    }
    this.dot(...place, 4);
  }
}

function between(run, position, points) {
  const k = Math.min(Math.floor(position), points.length - 1);
  const next = Math.min(k + 1, points.length - 1);
  const part = position - k;
  return [0, 1].map((i) => points[k][i] + part * (points[next][i] - points[k][i]));
}

function niceTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) ticks.push(Math.abs(v) < 1e-12 * step ? 0 : v);
  return ticks;
}

export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) {
    const exponent = Math.floor(Math.log10(size) + 1e-9);
    const mantissa = Number((value / 10 ** exponent).toPrecision(2));
    return `${mantissa === 1 ? "" : `${mantissa}·`}${power(exponent)}`.replace("-", "−");
  }
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

function power(exponent) {
  if (exponent >= -2 && exponent <= 3) return String(Number((10 ** exponent).toPrecision(1)));
  return `10${[...String(exponent)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("")}`;
}
