// What pages do beyond plain HTML: load their live parts again when told, ask before what can't be undone, passkeys.
"use strict";

const live = document.body.dataset.live;
if (live && window.EventSource) {
  let loading = false, again = false;
  const refresh = async () => {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of document.querySelectorAll("[data-live-part]")) {
          const fresh = page.getElementById(part.id);
          // Nothing is pulled away from under somebody who is typing.
          if (fresh && fresh.innerHTML !== part.innerHTML && !part.querySelector("textarea:focus, input:focus, select:focus, details[open]"))
            part.replaceWith(document.importNode(fresh, true));
        }
      }
    } catch { /* offline: the next event tries again */ }
    loading = false;
    if (again) { again = false; refresh(); }
  };
  const source = new EventSource(live);
  source.addEventListener("changed", refresh);
  addEventListener("pagehide", () => source.close());
}

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) { event.preventDefault(); return; }
  // One press is one act.
  if (event.submitter) setTimeout(() => { event.submitter.disabled = true; });
});
addEventListener("pageshow", (event) => {
  if (event.persisted) for (const button of document.querySelectorAll("button:disabled")) button.disabled = false;
});

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const csrf = () => document.querySelector("input[name=csrf]").value;
const post = async (path, value) => {
  const body = new URLSearchParams({ csrf: csrf(), value: JSON.stringify(value ?? null), name: document.querySelector("[name=passkey_name]")?.value ?? "", next: document.querySelector("[name=next]")?.value ?? "" });
  const answer = await fetch(path, { method: "POST", body, headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
};
const signIn = async () => {
  const options = await post("/desk/passkey/ask");
  options.challenge = bytes(options.challenge);
  options.allowCredentials = (options.allowCredentials ?? []).map((one) => ({ ...one, id: bytes(one.id) }));
  const made = await navigator.credentials.get({ publicKey: options });
  const { authenticatorData, clientDataJSON, signature, userHandle } = made.response;
  const done = await post("/desk/passkey/sign-in", {
    id: made.id, rawId: text(made.rawId), type: made.type,
    response: { authenticatorData: text(authenticatorData), clientDataJSON: text(clientDataJSON), signature: text(signature), userHandle: userHandle ? text(userHandle) : null },
  });
  location.assign(done.go);
};
const register = async () => {
  const options = await post("/desk/passkey/offer");
  options.challenge = bytes(options.challenge);
  options.user.id = bytes(options.user.id);
  options.excludeCredentials = (options.excludeCredentials ?? []).map((one) => ({ ...one, id: bytes(one.id) }));
  const made = await navigator.credentials.create({ publicKey: options });
  const { attestationObject, clientDataJSON } = made.response;
  const done = await post("/desk/passkey/add", {
    id: made.id, rawId: text(made.rawId), type: made.type,
    response: { attestationObject: text(attestationObject), clientDataJSON: text(clientDataJSON) },
  });
  location.assign(done.go);
};
if (window.PublicKeyCredential) {
  for (const block of document.querySelectorAll("[data-passkey]")) block.hidden = false;
  document.addEventListener("click", async (event) => {
    const work = event.target.matches("[data-passkey-sign-in]") ? signIn : event.target.matches("[data-passkey-add]") ? register : null;
    if (!work) return;
    try { await work(); } catch { for (const said of document.querySelectorAll("[data-passkey-failed]")) said.hidden = false; }
  });
}
