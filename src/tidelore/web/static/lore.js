// Keys, the live part of Status, and forms that are sent once. Every page can be read without this file.
"use strict";

(() => {
  const box = () => document.querySelector("[data-search]");
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const keys = document.getElementById("keys");

  const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

  const move = (step) => {
    const all = rows();
    if (all.length === 0) return;
    const now = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    for (const row of all) row.classList.toggle("current", row === next);
    const link = next.querySelector("a.main-link") || next.querySelector("a");
    if (link) link.focus();
    next.scrollIntoView({ block: "nearest" });
  };

  // Threads that are not resolved are never folded.
  const nextThread = () => {
    const all = [...document.querySelectorAll(".thread.open")];
    if (all.length === 0) return;
    const now = all.findIndex((thread) => thread.contains(document.activeElement));
    const next = all[(now + 1) % all.length];
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  };

  const actions = {
    "/": () => { const field = box(); if (field) { field.focus(); field.select(); } },
    "j": () => move(1),
    "k": () => move(-1),
    "n": nextThread,
    "h": () => { window.location.assign("/"); },
    "?": () => { if (keys && !keys.open) keys.showModal(); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (keys && keys.open) return;
    const act = actions[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", actions["?"]);
  }

  // The chosen project applies at once; without this script the button Search applies it.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form#search");
    if (form && event.target.name === "project") form.submit();
  });

  for (const form of document.querySelectorAll("form[data-once]")) {
    form.addEventListener("submit", () => {
      const button = form.querySelector("button");
      window.setTimeout(() => { button.disabled = true; button.textContent = "Refreshing…"; }, 0);
    });
  }

  const live = document.querySelector("[data-live]");
  if (live && window.EventSource) {
    const source = new EventSource(live.dataset.live);
    source.onmessage = (event) => {
      // A reader who is inside keeps the place; the next update comes soon.
      if (!live.contains(document.activeElement)) live.innerHTML = event.data;
    };
    window.addEventListener("pagehide", () => source.close());
  }
})();
