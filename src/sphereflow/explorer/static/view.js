// The player as an element of the page: the server names a run, the browser fetches its frames.
import { Player } from "sphereflow-player";

export default {
  template: "<div></div>",
  props: { first: Object },
  mounted() {
    this.player = new Player(this.$el, { onSpeed: (speed) => this.$emit("speed", speed) });
    this.$el.__player = this.player; // for whoever measures the page
    if (this.first) this.show(this.first);
  },
  unmounted() {
    this.player.close();
  },
  methods: {
    show({ about, address, speed }) {
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
