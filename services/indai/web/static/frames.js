// The microphone's sound in frames of 20 ms for the page: PCM, 16-bit little-endian, at the rate of the audio context.
class Frames extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frame = new Int16Array(Math.round(sampleRate / 50));
    this.filled = 0;
  }
  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.frame[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === this.frame.length) {
        this.port.postMessage(this.frame.slice().buffer);
        this.filled = 0;
      }
    }
    return true;
  }
}
registerProcessor("frames", Frames);
