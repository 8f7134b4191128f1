// The player as an element of the page: the server names a run, the browser fetches its frames.
import { Player } from "sphereflow-player";

// Says how far a run is while nothing moves, and why a page has none.
class LivePlayer extends Player {
  waiting = "";

  say(text) {
    const { run } = this;
    if (this.waiting) return super.say(this.waiting);
    if (text === "" || this.message || !run?.times.length) return super.say(text);
    const seconds = Math.round((performance.now() - this.began) / 1000);
    const first = `computing the first step, ${seconds} s so far; a new size is compiled once …`;
    super.say(run.times.length < 2 ? first : `simulating: ${run.times.length} of ${run.frames} frames, ${seconds} s so far …`);
  }

  load(about, address) {
    this.began = performance.now();
    return super.load(about, address);
  }
}

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
