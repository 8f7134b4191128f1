// The rotatable sphere: tokens as points, drawn by WebGL, or on a plain canvas where there is no WebGL.
//
// Two neighbouring frames lie on the graphics card as 16-bit integers, and the shader moves every token from one to the
// other: between frames nothing is computed or copied per token in the browser.

// The colours of Okabe and Ito with five more, told apart on light and on dark ground; slot 0 is for small clusters.
export const PALETTE = [
  "#8793a8", "#0072b2", "#e06a00", "#009e73", "#cc79a7", "#e6a100", "#3aa7e6", "#d6455d", "#7a5fd0", "#7fa32b",
  "#b5651d", "#14a3a8", "#c2489a",
];
const CAMERA = 3.6; // distance of the eye from the centre; the sphere has radius 1
const MARGIN = 0.87;

const TOKEN_VERTEX = `
attribute vec3 here, there; attribute vec4 look;
uniform mat3 view; uniform float part, onSphere, open, base, side, fit; uniform vec3 palette[13], haze;
varying vec3 colour; varying float strength;
void main() {
  vec3 p = mix(here, there, part);
  float length2 = dot(p, p);
  if (onSphere > 0.5 && length2 > 1e-6) p *= inversesqrt(length2);
  vec3 q = view * p;
  float closeness = ${CAMERA} / (${CAMERA} - q.z);
  bool front = q.z * ${CAMERA} > 1.0 || open > 0.5;
  if (front != (side > 0.0)) { gl_Position = vec4(2.0, 2.0, 2.0, 1.0); gl_PointSize = 0.0; return; }
  gl_Position = vec4(q.xy * closeness * fit, 0.0, 1.0);
  gl_PointSize = base * look.y * (front ? closeness : 0.8 * closeness);
  int slot = int(look.x + 0.5);
  colour = palette[0];
  for (int k = 1; k < 13; k++) if (k == slot) colour = palette[k];
  // Tokens behind the sphere fade towards its colour; transparency would add up where many sit in one place.
  if (!front) colour = mix(haze, colour, 0.4);
  strength = slot == 0 ? 0.85 : 0.97;
}`;
const TOKEN_FRAGMENT = `
precision mediump float; varying vec3 colour; varying float strength;
void main() {
  vec2 offset = gl_PointCoord - 0.5;
  float r = 2.0 * length(offset);
  if (r > 1.0) discard;
  float light = 1.08 - 0.38 * r * r - 0.35 * (offset.x + offset.y);
  float alpha = strength * (1.0 - smoothstep(0.82, 1.0, r));
  gl_FragColor = vec4(colour * light * alpha, alpha);
}`;
const LINE_VERTEX = `
attribute vec3 here; uniform mat3 view; uniform float fit, unit; varying float depth;
void main() {
  vec3 q = view * here;
  depth = q.z * ${CAMERA} - unit * unit; // the horizon of a sphere of this radius
  gl_Position = vec4(q.xy * ${CAMERA} / (${CAMERA} - q.z) * fit, 0.0, 1.0);
}`;
const LINE_FRAGMENT = `
precision mediump float; varying float depth; uniform vec4 ink; uniform float side, open;
void main() {
  if (depth * side < 0.0 && open < 0.5) discard;
  float alpha = ink.a * (side > 0.0 ? 1.0 : 0.4);
  gl_FragColor = vec4(ink.rgb * alpha, alpha);
}`;

export class Sphere {
  // `stage` is the element that holds the canvas and the ball behind it.
  constructor(stage) {
    this.stage = stage;
    this.ball = stage.appendChild(Object.assign(document.createElement("div"), { className: "sf-ball" }));
    this.canvas = stage.appendChild(Object.assign(document.createElement("canvas"), { className: "sf-canvas" }));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.lastDrag = -Infinity;
    this.flat = false;
    this.onSphere = true;
    this.n = 0;
    this.part = 0;
    this.unit = 1; // radius of the sphere in the coordinates of the tokens
    this.resetView();
    const wanted = { alpha: true, antialias: !drawnBySoftware(), premultipliedAlpha: true };
    const refused = new URLSearchParams(location.search).get("webgl") === "off";
    this.gl = refused ? null : this.canvas.getContext("webgl", wanted);
    this.pen = this.gl ? null : this.canvas.getContext("2d");
    if (this.gl) this.prepare();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(stage);
    this.resize();
    this.restyle();
  }

  resetView() {
    [this.yaw, this.pitch] = this.flat ? [0, 0] : [0.5, 0.35];
  }

  // --- what is shown ----------------------------------------------------------------------------------------------

  begin({ n, flat, onSphere, unit = 1 }) {
    const turned = flat !== this.flat;
    Object.assign(this, { n, flat, onSphere, unit, here: null, there: null, look: null });
    if (turned) this.resetView();
    this.ball.style.visibility = flat ? "hidden" : "visible";
    this.ground = this.gl ? this.buffer(groundLines(flat, unit)) : groundLines(flat, unit);
    this.resize();
  }

  // Tokens between the frames `here` and `there` (Int16Array of 3n), `look` = colour slot, size, 0, 0 per token.
  frames(here, there, look) {
    if (here === this.here && there === this.there) return;
    Object.assign(this, { here, there, look });
    if (!this.gl) return;
    for (const [name, data] of [["here", here], ["there", there], ["look", look]]) {
      this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.stored[name]);
      this.gl.bufferData(this.gl.ARRAY_BUFFER, data, this.gl.STREAM_DRAW);
    }
  }

  restyle() {
    const style = getComputedStyle(this.stage);
    this.ink = rgb(style.getPropertyValue("--sf-grid").trim() || "#8090a0");
    this.haze = rgb(style.getPropertyValue("--sf-ball-dark").trim() || "#e0e6f0");
    this.dust = style.getPropertyValue("--sf-dust").trim() || PALETTE[0];
    this.colours = [this.dust, ...PALETTE.slice(1)];
  }

  idleTurn(seconds) {
    const still = this.flat || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!still && performance.now() - this.lastDrag > 6000) this.yaw += 0.07 * seconds;
  }

  // --- drawing ----------------------------------------------------------------------------------------------------

  resize() {
    this.width = Math.max(this.stage.clientWidth, 1);
    this.height = Math.max(this.stage.clientHeight, 1);
    const density = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(this.width * density);
    this.canvas.height = Math.round(this.height * density);
    this.density = density;
    const radius = this.radius() * this.unit;
    const size = `${2 * radius}px`;
    Object.assign(this.ball.style, { width: size, height: size, left: `${this.width / 2 - radius}px` });
    this.ball.style.top = `${this.height / 2 - radius}px`;
  }

  radius() {
    return (MARGIN * Math.min(this.width, this.height)) / 2;
  }

  // From lengths of the model to pixels: the outline of a ball seen from nearby is a little larger than the ball.
  scale() {
    return (this.radius() * Math.sqrt(CAMERA ** 2 - 1)) / CAMERA;
  }

  matrix() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    if (this.flat) return [[cy, -sy, 0], [sy * cp, cy * cp, -sp], [sy * sp, cy * sp, cp]];
    // The third coordinate points up on the screen.
    return [[cy, -sy, 0], [sy * sp, cy * sp, cp], [-sy * cp, -cy * cp, sp]];
  }

  baseSize() {
    return Math.max(3.4, Math.min(11, 46 / Math.sqrt(Math.max(this.n, 1)) + 3)) * (this.radius() / 300 + 0.35);
  }

  draw(part) {
    this.part = part;
    if (!this.here) return;
    if (this.gl) this.drawGL();
    else this.drawPlain();
  }

  prepare() {
    const gl = this.gl;
    this.tokens = program(gl, TOKEN_VERTEX, TOKEN_FRAGMENT);
    this.lines = program(gl, LINE_VERTEX, LINE_FRAGMENT);
    this.stored = { here: gl.createBuffer(), there: gl.createBuffer(), look: gl.createBuffer() };
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      if (!this.here) return;
      const [here, there] = [this.here, this.there];
      this.ground = this.buffer(groundLines(this.flat, this.unit));
      this.here = null;
      this.frames(here, there, this.look);
    });
  }

  buffer(points) {
    const gl = this.gl;
    const made = { buffer: gl.createBuffer(), count: points.length / 3 };
    gl.bindBuffer(gl.ARRAY_BUFFER, made.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
    return made;
  }

  drawGL() {
    const gl = this.gl;
    const view = this.matrix();
    const columns = [0, 1, 2].flatMap((c) => view.map((row) => row[c]));
    const fit = (2 * this.scale()) / Math.min(this.width, this.height);
    // A square viewport keeps the picture round without a second scale in the shaders.
    const square = Math.min(this.canvas.width, this.canvas.height);
    gl.viewport((this.canvas.width - square) / 2, (this.canvas.height - square) / 2, square, square);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    for (const side of [-1, 1]) {
      this.useLines(columns, fit, side);
      this.useTokens(columns, fit, side);
    }
  }

  useLines(columns, fit, side) {
    const { gl, lines } = this;
    if (this.flat && side < 0) return;
    gl.useProgram(lines.program);
    gl.uniformMatrix3fv(lines.at("view"), false, columns);
    gl.uniform1f(lines.at("fit"), fit);
    gl.uniform1f(lines.at("unit"), this.unit);
    gl.uniform1f(lines.at("side"), side);
    gl.uniform1f(lines.at("open"), this.flat ? 1 : 0);
    gl.uniform4f(lines.at("ink"), ...this.ink, 0.55);
    this.point(lines, "here", this.ground.buffer, 3, gl.FLOAT, false);
    gl.drawArrays(gl.LINES, 0, this.ground.count);
  }

  useTokens(columns, fit, side) {
    const { gl, tokens } = this;
    gl.useProgram(tokens.program);
    gl.uniformMatrix3fv(tokens.at("view"), false, columns);
    for (const [name, value] of Object.entries({
      part: this.part, onSphere: this.onSphere ? 1 : 0, open: this.flat || !this.onSphere ? 1 : 0, side, fit,
      base: (this.baseSize() * this.density) / 16,
    })) gl.uniform1f(tokens.at(name), value);
    gl.uniform3fv(tokens.at("palette"), this.colours.flatMap(rgb));
    gl.uniform3fv(tokens.at("haze"), this.haze);
    this.point(tokens, "here", this.stored.here, 3, gl.SHORT, true);
    this.point(tokens, "there", this.stored.there, 3, gl.SHORT, true);
    this.point(tokens, "look", this.stored.look, 4, gl.UNSIGNED_BYTE, false);
    gl.drawArrays(gl.POINTS, 0, this.n);
  }

  point(program, name, buffer, size, type, normalized) {
    const { gl } = this;
    const place = gl.getAttribLocation(program.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, normalized, 0, 0);
  }

  drawPlain() {
    const { pen, density } = this;
    const view = this.matrix();
    const [middleX, middleY, scale] = [this.width / 2, this.height / 2, this.scale()];
    const seen = (x, y, z) => {
      const [a, b, c] = view.map((row) => row[0] * x + row[1] * y + row[2] * z);
      const closeness = CAMERA / (CAMERA - c);
      return [middleX + a * closeness * scale, middleY - b * closeness * scale, c * CAMERA > this.unit ** 2];
    };
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.strokeStyle = `rgba(${this.ink.map((v) => Math.round(255 * v))},0.5)`;
    pen.lineWidth = 0.8;
    pen.beginPath();
    for (let i = 0; i < this.ground.length; i += 6) {
      const [x0, y0, front] = seen(...this.ground.subarray(i, i + 3));
      if (!front && !this.flat) continue;
      const [x1, y1] = seen(...this.ground.subarray(i + 3, i + 6));
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
    }
    pen.stroke();
    const unit = this.baseSize() / 32;
    for (const side of [false, true]) {
      for (let i = 0; i < this.n; i++) {
        const p = [0, 1, 2].map((k) => this.here[3 * i + k] + this.part * (this.there[3 * i + k] - this.here[3 * i + k]));
        const length = this.onSphere ? Math.hypot(...p) || 1 : 32767;
        const [x, y, before] = seen(p[0] / length, p[1] / length, p[2] / length);
        const front = before || !this.onSphere || this.flat;
        if (front !== side) continue;
        pen.globalAlpha = front ? 0.95 : 0.3;
        pen.fillStyle = this.colours[this.look[4 * i]];
        pen.beginPath();
        pen.arc(x, y, unit * this.look[4 * i + 1], 0, 7);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  // --- turning by hand --------------------------------------------------------------------------------------------

  listen() {
    const { canvas } = this;
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      last = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      this.turn((event.clientX - last[0]) / this.radius(), (event.clientY - last[1]) / this.radius());
      last = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] }[event.key];
      if (!step) return;
      event.preventDefault();
      this.turn(...step);
    });
  }

  turn(right, down) {
    this.lastDrag = performance.now();
    this.yaw += right;
    this.pitch = Math.max(-1.5, Math.min(1.5, this.pitch + down));
  }
}

// Without a graphics card smooth edges cost half of the frames, and only the thin lines would gain by them.
function drawnBySoftware() {
  const probe = document.createElement("canvas").getContext("webgl");
  const names = probe?.getExtension("WEBGL_debug_renderer_info");
  const renderer = names ? probe.getParameter(names.UNMASKED_RENDERER_WEBGL) : "";
  probe?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(renderer);
}

// Parallels and meridians of the sphere, or the circle itself, as pairs of points.
function groundLines(flat, unit) {
  const points = [];
  const ring = (place, count) => {
    for (let k = 0; k < count; k++) points.push(...place((2 * Math.PI * k) / count), ...place((2 * Math.PI * (k + 1)) / count));
  };
  if (flat) {
    ring((a) => [Math.cos(a), Math.sin(a), 0], 240);
    return new Float32Array(points).map((v) => unit * v);
  }
  for (const height of [-0.866, -0.5, 0, 0.5, 0.866]) {
    const r = Math.sqrt(1 - height * height);
    ring((a) => [r * Math.cos(a), r * Math.sin(a), height], 96);
  }
  for (let k = 0; k < 6; k++) {
    const turn = (Math.PI * k) / 6;
    ring((a) => [Math.cos(a) * Math.cos(turn), Math.cos(a) * Math.sin(turn), Math.sin(a)], 96);
  }
  return new Float32Array(points).map((v) => unit * v);
}

function rgb(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16) / 255);
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  const places = new Map();
  const at = (name) => {
    if (!places.has(name)) places.set(name, gl.getUniformLocation(made, name));
    return places.get(name);
  };
  return { program: made, at };
}
