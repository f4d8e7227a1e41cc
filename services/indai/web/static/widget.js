// The chat of a handle inside another site's page: <script src="https://NODE/widget.js" data-handle="alice" defer></script>
"use strict";

(() => {
  const me = document.currentScript, name = me?.dataset.handle ?? "";
  if (!/^[a-z0-9][a-z0-9./-]*$/i.test(name)) return;
  const home = new URL(me.src).origin, words = me.dataset.label || "Chat";
  const button = document.createElement("button"), frame = document.createElement("iframe");
  button.type = "button";
  button.textContent = words;
  button.setAttribute("aria-expanded", "false");
  button.style.cssText = "position:fixed;inset:auto 1rem 1rem auto;z-index:2147483646;font:600 1rem system-ui,sans-serif;padding:.75rem 1.25rem;min-height:44px;border:0;border-radius:2rem;background:#2b3f91;color:#fff;cursor:pointer;box-shadow:0 4px 16px rgb(0 0 0/.25)";
  frame.title = words;
  frame.style.cssText = "position:fixed;inset:auto 1rem 5rem auto;z-index:2147483646;width:min(24rem,calc(100vw - 2rem));height:min(36rem,calc(100vh - 7rem));border:1px solid #e2ded4;border-radius:.75rem;background:#fff;box-shadow:0 8px 32px rgb(0 0 0/.2)";
  frame.hidden = true;
  const show = (open) => {
    if (open && !frame.src) { frame.src = `${home}/${name}/-/widget`; }
    frame.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) frame.focus(); else button.focus();
  };
  button.addEventListener("click", () => show(frame.hidden));
  addEventListener("keydown", (event) => { if (event.key === "Escape" && !frame.hidden) show(false); });
  document.body.append(frame, button);
})();
