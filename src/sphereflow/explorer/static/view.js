// The player as an element of the page: the server names a run, the browser fetches its frames.
import { Player } from "sphereflow-player";

// Says how far a run is, which frames are rough, and why a page has no run.
class LivePlayer extends Player {
  waiting = "";

  words(run, stuck) {
    if (this.waiting) return [this.waiting];
    if (this.message) return [this.message];
    if (!run) return ["asking the server for a run"];
    const seconds = `${Math.round((performance.now() - this.began) / 1000)} s so far`;
    if (!run.times.length) return ["drawing the first tokens", seconds];
    const far = [`${run.fine} of ${run.frames} frames`];
    far.push(run.left ? `about ${duration(run.left)} left` : seconds);
    if (run.sharing > 1) far.push(`${run.sharing} runs share the processor`);
    if (run.times.length < 2) return ["computing the first step", far.slice(1).join(", ")];
    if (this.rough) {
      const aim = run.tol ? `refined to ${power(run.tol)}` : "refined";
      const how = run.fine < 2 ? `compiling, then ${aim}` : `being ${aim}`;
      return [`preview, steps good to ${run.rough}; ${how}`, far.join(", ")];
    }
    return stuck ? ["simulating", far.join(", ")] : [""];
  }

  load(about, address) {
    this.began = performance.now();
    return super.load(about, address);
  }
}

const duration = (seconds) => (seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);
const power = (value) => `10${[...String(Math.round(Math.log10(value)))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("")}`;

export default {
  template: "<div></div>",
  props: { shown: Object, waiting: String },
  mounted() {
    this.player = new LivePlayer(this.$el, { onSpeed: (speed) => this.$emit("speed", speed) });
    this.$el.__player = this.player; // for whoever measures the page
    this.show(this.shown);
  },
  unmounted() {
    this.player.close();
  },
  watch: {
    shown(view, before) {
      if (view?.address !== before?.address) this.show(view);
    },
    waiting(why) {
      this.player.waiting = why ?? "";
    },
  },
  methods: {
    show(view) {
      this.player.waiting = this.waiting ?? "";
      if (!view) return;
      const { about, address, speed } = view;
      this.player.setSpeed(speed);
      this.player.setPlaying(true);
      this.player.load(about, address);
    },
    setSpeed(speed) {
      this.player.setSpeed(speed);
    },
    picture(caption, name) {
      return this.player.savePicture(caption, name);
    },
  },
};
