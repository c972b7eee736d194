"use strict";
// The page is fetched again every few seconds, and what differs is taken over. What is the same stays the same
// nodes: so do scroll, focus, an open <details>, and text that is selected.
(() => {
  const live = document.getElementById("live"), stale = document.getElementById("stale");
  const edition = document.documentElement.dataset.edition;
  const every = document.documentElement.dataset.refresh * 1000;
  const patience = every + 2000; // for one answer
  let last = Date.now(), timer = 0, asking = null, needle = "";

  function take(to, from) {
    if (to.nodeType === Node.TEXT_NODE) {
      if (to.data !== from.data) to.data = from.data;
      return;
    }
    for (const { name } of [...to.attributes]) {
      if (!from.hasAttribute(name) && name !== "open" && name !== "hidden") to.removeAttribute(name);
    }
    for (const { name, value } of from.attributes) {
      if (to.getAttribute(name) !== value) to.setAttribute(name, value);
    }
    const keyed = new Map();
    for (const child of to.children) if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
    const kept = new Set([...from.children].map((child) => child.dataset.key));
    for (const [key, child] of keyed) if (!kept.has(key)) child.remove();
    let at = to.firstChild;
    for (const child of [...from.childNodes]) {
      while (at && at.dataset?.mine !== undefined) at = at.nextSibling;
      const key = child.dataset?.key;
      let same = key === undefined ? at : keyed.get(key);
      keyed.delete(key); // two may have one name
      if (key === undefined && same && (same.nodeName !== child.nodeName || same.dataset?.key !== undefined)) same = null;
      if (!same) {
        to.insertBefore(document.adoptNode(child), at);
        continue;
      }
      if (same !== at) to.insertBefore(same, at);
      else at = at.nextSibling;
      take(same, child);
    }
    while (at) {
      const next = at.nextSibling;
      if (at.dataset?.mine === undefined) at.remove();
      at = next;
    }
  }

  // A browser forgets where in a text a selection was when the text changes.
  function keepingSelection(change) {
    const s = getSelection();
    const { anchorNode: a, anchorOffset: i, focusNode: f, focusOffset: j, isCollapsed } = s;
    change();
    if (isCollapsed || !a?.isConnected || !f?.isConnected) return;
    const within = (node, n) => Math.min(n, node.nodeType === Node.TEXT_NODE ? node.length : node.childNodes.length);
    if (s.anchorNode !== a || s.anchorOffset !== i || s.focusNode !== f || s.focusOffset !== j) {
      s.setBaseAndExtent(a, within(a, i), f, within(f, j));
    }
  }

  async function ask() {
    clearTimeout(timer);
    asking?.abort();
    const mine = asking = new AbortController();
    const late = setTimeout(() => mine.abort(), patience);
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", signal: mine.signal });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = next.getElementById("live");
      if (!answer.ok || !found) throw new Error("this is not the page");
      if (next.documentElement.dataset.edition !== edition) return location.reload();
      keepingSelection(() => take(live, found));
      document.title = next.title;
      filter();
      last = Date.now();
      stale.hidden = true;
      document.body.classList.remove("stale");
    } catch {
      if (asking === mine) old("kubejournal does not answer.");
    } finally {
      clearTimeout(late);
      if (asking === mine) timer = setTimeout(ask, every);
    }
  }

  // Said once: it is read out aloud to some.
  function old(why) {
    if (!stale.hidden) return;
    const at = document.getElementById("asof").textContent;
    stale.textContent = `${why} What stands here is how it was at ${at}, and not how it is now.`;
    stale.hidden = false;
    document.body.classList.add("stale");
    document.title = "(old) " + document.title;
  }

  // With a few streams there is nothing to look for.
  const box = document.createElement("label"), input = document.createElement("input");
  box.dataset.mine = "";
  box.append("Filter ", input);
  input.type = "search";
  input.id = "filter";
  input.placeholder = "stream or state";
  input.addEventListener("input", () => {
    needle = input.value.trim().toLowerCase();
    filter();
  });
  document.querySelector(".bar").append(box);
  function filter() {
    const rows = document.querySelectorAll("tbody tr");
    box.hidden = rows.length < 8 && needle === "";
    for (const row of rows) {
      const words = row.cells[0].textContent + " " + row.cells[1].textContent;
      row.hidden = !words.toLowerCase().includes(needle);
    }
  }

  filter();
  timer = setTimeout(ask, every);
  // Timers of a page that is not seen, or of a machine that sleeps, come late: what then stands there is old.
  setInterval(() => { if (Date.now() - last > every + patience) old("This page has slept."); }, 1000);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
})();
