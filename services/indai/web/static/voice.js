// Speaking with an agent on its page: the microphone goes out over a WebSocket, sentences come back as words and sound.
"use strict";

(() => {
  const bar = document.querySelector("[data-voice]"), talk = document.getElementById("talk");
  if (!bar || !window.AudioWorkletNode || !navigator.mediaDevices?.getUserMedia) return;
  const button = bar.querySelector("button"), state = bar.querySelector("[role=status]");
  const say = (words) => { state.textContent = words ?? ""; };
  let call = null;

  const line = (kind, words) => {
    const item = document.createElement("li"), said = document.createElement("div");
    item.className = kind; said.className = "said"; said.dir = "auto"; said.textContent = words;
    item.append(said); talk.append(item);
    talk.scrollTop = talk.scrollHeight;
  };

  // Sound that waits to be heard, one piece after the other; `clear` drops what wasn't.
  const speaker = (context, rate) => {
    let until = 0, playing = [];
    return {
      play(bytes) {
        const samples = new Int16Array(bytes), buffer = context.createBuffer(1, Math.max(1, samples.length), rate), channel = buffer.getChannelData(0);
        for (let at = 0; at < samples.length; at++) channel[at] = samples[at] / 32768;
        const source = context.createBufferSource();
        source.buffer = buffer;
        source.connect(context.destination);
        until = Math.max(until, context.currentTime);
        source.start(until);
        until += buffer.duration;
        playing.push(source);
        source.onended = () => { playing = playing.filter((each) => each !== source); };
      },
      clear() { for (const source of playing) source.stop(); playing = []; until = 0; },
    };
  };

  const end = (words) => {
    if (!call) return;
    const over = call;
    call = null;
    over.stream.getTracks().forEach((track) => track.stop());
    if (over.socket.readyState <= WebSocket.OPEN) over.socket.close();
    over.context.close();
    button.textContent = bar.dataset.begin;
    button.setAttribute("aria-pressed", "false");
    say(words);
  };

  const begin = async () => {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
    const context = new AudioContext({ sampleRate: 16000 });
    await context.audioWorklet.addModule(bar.dataset.frames);
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${bar.dataset.voice}`);
    socket.binaryType = "arraybuffer";
    call = { stream, context, socket };
    button.textContent = bar.dataset.end;
    button.setAttribute("aria-pressed", "true");
    let sound = null;
    socket.onopen = () => socket.send(JSON.stringify({ type: "start", language: document.documentElement.lang, time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone ?? "" }));
    socket.onmessage = ({ data }) => {
      if (typeof data !== "string") { sound?.play(data); return; }
      const told = JSON.parse(data);
      if (told.type === "ready") {
        sound = speaker(context, told.rate);
        const frames = new AudioWorkletNode(context, "frames", { numberOfOutputs: 0 });
        frames.port.onmessage = ({ data: frame }) => { if (socket.readyState === WebSocket.OPEN) socket.send(frame); };
        context.createMediaStreamSource(stream).connect(frames);
        say(bar.dataset.listening);
      } else if (told.type === "heard") { line("mine", told.text); say(bar.dataset.thinking); }
      else if (told.type === "sentence") line("theirs", told.text);
      else if (told.type === "clear") sound?.clear();
      else if (told.type === "finished") say(bar.dataset.listening);
      else if (told.type === "error") say(told.message ?? told.text ?? bar.dataset.failed);
    };
    socket.onclose = () => end(state.textContent === bar.dataset.listening ? "" : bar.dataset.failed);
  };

  button.addEventListener("click", async () => {
    if (call) { end(""); return; }
    say("");
    try { await begin(); } catch (error) {
      end("");
      say(error.name === "NotAllowedError" || error.name === "NotFoundError" ? bar.dataset.refused : bar.dataset.failed);
    }
  });
  bar.hidden = false;
})();
