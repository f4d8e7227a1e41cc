// The chat of a public page: answers are read as they are written, and a broken connection goes on after the last event.
"use strict";

(() => {
  const main = document.querySelector("[data-page]"), form = document.getElementById("say");
  if (!main || !form || !window.ReadableStream) return;
  const home = main.dataset.page, talk = document.getElementById("talk"), state = document.getElementById("state");
  const box = form.elements.namedItem("text").length ? document.getElementById("text") : form.elements.text;
  const key = `visitor ${home}`, kept = () => { try { return JSON.parse(sessionStorage.getItem(key)); } catch { return null; } };
  // A page inside another site's has no cookies: it carries who its visitor is.
  let carried = null;
  if (main.dataset.visitor) {
    carried = kept() ?? { visitor: main.dataset.visitor, csrf: form.elements.csrf.value };
    try { sessionStorage.setItem(key, JSON.stringify(carried)); } catch { /* then it lasts as long as the page */ }
  }
  const headers = (more) => (carried ? { ...more, "X-Visitor": carried.visitor } : more);
  const csrf = () => carried?.csrf ?? form.elements.csrf.value;
  const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const say = (words) => { state.textContent = words ?? ""; };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  try { form.elements.zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? ""; } catch { /* it is found out otherwise */ }

  const bubble = (kind) => {
    const item = document.createElement("li"), said = document.createElement("div");
    item.className = kind; said.className = "said"; said.dir = "auto";
    item.append(said); talk.append(item);
    return said;
  };
  const below = () => { talk.parentElement.scrollTop = talk.parentElement.scrollHeight; };

  // Server-sent events out of a response; gives each to `told`, and the number of the last one.
  async function* events(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const event = { id: "", kind: "", data: null };
        for (const line of rest.slice(0, end).split("\n")) {
          if (line.startsWith("id: ")) event.id = line.slice(4);
          else if (line.startsWith("event: ")) event.kind = line.slice(7);
          else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
        }
        if (event.kind) yield event;
      }
    }
  }

  const progress = (said, words) => {
    let line = said.querySelector(".progress");
    if (!line) { line = document.createElement("p"); line.className = "progress quiet small"; said.append(line); }
    line.textContent = words;
  };
  const offer = (choices) => {
    const row = document.createElement("div");
    row.className = "row chips";
    for (const one of choices) {
      const button = document.createElement("button");
      button.type = "button"; button.className = "small"; button.textContent = one.title;
      button.addEventListener("click", () => { row.remove(); send(one.title, one.id); });
      row.append(button);
    }
    talk.lastElementChild.append(row);
  };

  const attach = (said, files) => {
    for (const one of files) {
      const row = document.createElement("p"), link = document.createElement("a");
      row.className = "file"; link.href = one.url; link.download = one.name; link.textContent = one.name;
      row.append(link);
      said.append(row);
    }
  };

  const show = (event, said) => {
    const { data } = event;
    // What is markup was made by the node out of escaped text.
    if (event.kind === "sentence") { said.querySelector(".progress")?.remove(); said.insertAdjacentHTML("beforeend", data.html); say(""); }
    else if (event.kind === "tool") progress(said, data.words);
    else if (event.kind === "approval" && data.terms) { const terms = document.createElement("p"); terms.className = "terms"; terms.textContent = `${data.terms}\n${data.code}`; said.append(terms); }
    else if (event.kind === "finished") { said.innerHTML = data.html; if (data.language) said.lang = data.language; attach(said, data.files); if (data.choices.length) offer(data.choices); say(""); }
    else if (event.kind === "failed") { said.parentElement.remove(); say(data.message); }
    below();
  };

  // Follow a turn to its end, however often the connection breaks.
  const follow = async (first, said, turn) => {
    let last = "0", ended = false, open = first;
    for (let tries = 0; tries < 8 && !ended; tries += 1) {
      try {
        const answer = await open();
        if (!answer.ok) {
          const words = (await answer.json().catch(() => null))?.message;
          if (answer.status < 500 && answer.status !== 429 || tries > 5) { said.parentElement.remove(); say(words ?? state.dataset.failed); return false; }
          throw new Error(words);
        }
        for await (const event of events(answer)) {
          if (event.data?.turn) turn = event.data.turn;
          if (event.id) { if (Number(event.id) <= Number(last)) continue; last = event.id; tries = 0; }
          show(event, said);
          if (event.kind === "finished" || event.kind === "failed") { ended = true; break; }
        }
      } catch { /* offline, or the node is away: again below */ }
      if (ended) break;
      say(state.dataset.again);
      await wait(Math.min(500 * 2 ** tries, 8000));
      // Before the first event it is asked again as a whole: the message has an id, and is taken once.
      if (turn) open = () => fetch(`${home}/-/turns/${turn}`, { headers: headers({ "Last-Event-ID": last }) });
    }
    if (!ended) say(state.dataset.failed);
    return ended;
  };

  const send = async (text, choice = "") => {
    const fields = new URLSearchParams({ csrf: csrf(), id: fresh(), zone: form.elements.zone.value, text, choice });
    bubble("mine").textContent = text;
    form.querySelector(".chips")?.remove();
    say(state.dataset.thinking);
    const said = bubble("theirs");
    below();
    const open = () => fetch(`${home}/-/say`, { method: "POST", body: fields, headers: headers({ Accept: "text/event-stream" }) });
    await follow(open, said, "");
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const text = (event.submitter?.name === "text" ? event.submitter.value : box.value).trim();
    if (!text) return;
    if (event.submitter?.name !== "text") box.value = "";
    send(text);
    box.focus();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(form.querySelector("button.primary")); }
  });
  if (main.dataset.open) follow(() => fetch(`${home}/-/turns/${main.dataset.open}`, { headers: headers({}) }), bubble("theirs"), main.dataset.open);
  if (carried && carried.visitor !== main.dataset.visitor)
    fetch(location.pathname, { headers: headers({ Accept: "text/html" }) }).then(async (answer) => {
      const before = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("talk");
      if (answer.ok && before) { talk.replaceChildren(...document.importNode(before, true).children); below(); }
    }).catch(() => {});
  below();
})();
