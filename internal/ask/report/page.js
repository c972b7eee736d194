"use strict";
// The page is made of one JSON value. Text goes into it as text alone: nothing of a journal is read as HTML.
(async () => {
  const $ = (id) => document.getElementById(id);
  const svgNS = "http://www.w3.org/2000/svg";
  const set = (node, props, children) => {
    for (const [k, v] of Object.entries(props || {})) {
      if (v === undefined || v === false) continue;
      if (k.startsWith("on")) node.addEventListener(k.slice(2), v);
      else if (k === "text") node.textContent = v;
      else node.setAttribute(k, v === true ? "" : v);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
    return node;
  };
  const el = (tag, props, ...children) => set(document.createElement(tag), props, children);
  const svg = (tag, props, ...children) => set(document.createElementNS(svgNS, tag), props, children);

  const packed = Uint8Array.from(atob(JSON.parse($("data").textContent)), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const D = JSON.parse(await new Response(stream).text());
  const V = D.versions || [], O = D.objects || [];
  D.symptoms = D.symptoms || [];

  // What is derived once: the order of times, the versions of each object, lane and seq.
  const bySeq = new Map(), ofObject = O.map(() => []), ofLane = O.map(() => []);
  V.forEach((v, i) => { v.ix = i; bySeq.set(v.q, v); if (v.o >= 0) { ofObject[v.o].push(v); v.lane = O[v.o].l; ofLane[v.lane].push(v); } else v.lane = -1; });
  const byTime = [...V].sort((a, b) => a.t - b.t || a.q - b.q);
  ofLane.forEach((all) => all.sort((a, b) => a.t - b.t || a.q - b.q));
  const children = O.map(() => []);
  O.forEach((o, i) => { o.i = i; if (o.o >= 0 && O[o.o].l === o.o && o.l === i) children[o.o].push(i); });
  const rootOf = (i) => { while (O[i].o >= 0) i = O[i].o; return i; };
  const nameOf = (o) => `${o.k || o.r} ${o.s ? o.s + "/" : ""}${o.n}`;

  const KINDS = { a: "made", f: "was there", d: "deleted", t: "deletion asked for", s: "spec or data changed", m: "metadata changed", c: "status changed", w: "Warning Event", e: "Event", g: "gap", "": "written, nothing differs" };
  const LEVELS = { "-1": "gone", 0: "quiet", 1: "fine", 2: "busy", 3: "bad" };
  // A shape for each kind of change, 5 to each side of x, y.
  const SHAPES = {
    a: (x, y) => `M${x} ${y - 5}l5 9h-10z`, f: (x, y) => `M${x - 1} ${y - 4}h2v8h-2z`,
    d: (x, y) => `M${x - 5} ${y - 3.5}l1.5-1.5 3.5 3.5 3.5-3.5 1.5 1.5-3.5 3.5 3.5 3.5-1.5 1.5-3.5-3.5-3.5 3.5-1.5-1.5 3.5-3.5z`,
    t: (x, y) => `M${x} ${y + 5}l5-9h-10z`, s: (x, y) => `M${x} ${y - 5}l5 5-5 5-5-5z`,
    m: (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7z`, c: (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0z`,
    w: (x, y) => `M${x - 2} ${y - 6}h4l-1 7h-2zM${x - 1.5} ${y + 2.5}h3v3h-3z`, e: (x, y) => `M${x - .75} ${y - 3}h1.5v6h-1.5z`,
    g: (x, y) => `M${x - 4} ${y - 5}h3v10h-3zM${x + 1} ${y - 5}h3v10h-3z`, "": (x, y) => `M${x - 2} ${y - .75}h4v1.5h-4z`,
  };

  // What is shown. It stands in the fragment, so that a link leads to the same.
  const S = { from: D.from, to: D.to, v: null, q: "", kind: "", ns: "", m: "", p: "", problems: false, noise: false, utc: false, s: 0 };
  const folded = new Set();
  let cursor = -1, more = 0, width = 800, lanes = [], shown = [];
  function readFragment() {
    const f = new URLSearchParams(location.hash.slice(1));
    for (const k of ["q", "kind", "ns", "m", "p"]) S[k] = f.get(k) || "";
    for (const k of ["problems", "noise", "utc"]) S[k] = f.get(k) === "1";
    const at = (k, otherwise) => { const n = Number(f.get(k)); return f.get(k) && Number.isFinite(n) ? n : otherwise; };
    S.from = at("from", D.from); S.to = at("to", D.to);
    if (!(S.to > S.from)) [S.from, S.to] = [D.from, D.to];
    S.s = D.symptoms.length ? Math.max(0, D.symptoms.findIndex((s) => String(V[s.v].q) === f.get("symptom"))) : 0;
    S.v = bySeq.get(Number(f.get("seq"))) || null;
  }
  function writeFragment() {
    const f = new URLSearchParams();
    if (S.from !== D.from || S.to !== D.to) { f.set("from", Math.round(S.from)); f.set("to", Math.round(S.to)); }
    for (const k of ["q", "kind", "ns", "m", "p"]) if (S[k]) f.set(k, S[k]);
    for (const k of ["problems", "noise", "utc"]) if (S[k]) f.set(k, "1");
    if (S.s) f.set("symptom", V[D.symptoms[S.s].v].q);
    if (S.v) f.set("seq", S.v.q);
    history.replaceState(null, "", "#" + f);
  }

  const two = (n, d = 2) => String(n).padStart(d, "0");
  const parts = (t) => { const d = new Date(t); return S.utc
    ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()]
    : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()]; };
  const clock = (t, ms) => { const p = parts(t); return `${two(p[3])}:${two(p[4])}:${two(p[5])}${ms ? "." + two(p[6], 3) : ""}`; };
  const day = (t) => { const p = parts(t); return `${p[0]}-${two(p[1])}-${two(p[2])}`; };
  const zone = () => { if (S.utc) return "UTC"; const m = -new Date(D.from).getTimezoneOffset(); return m === 0 ? "UTC" : `UTC${m < 0 ? "-" : "+"}${two(Math.trunc(Math.abs(m) / 60))}:${two(Math.abs(m) % 60)}`; };
  const when = (t) => (day(D.from) === day(D.to) ? clock(t) : `${day(t).slice(5)} ${clock(t)}`);
  const plural = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

  // Which versions and lanes pass the filters.
  const text = (v) => v.text ??= [v.o >= 0 ? nameOf(O[v.o]) + " " + O[v.o].r : "", v.lane >= 0 ? nameOf(O[v.lane]) : "", v.w, v.p, v.x, v.s].join(" ").toLowerCase();
  function passes(v) {
    const o = v.lane >= 0 ? O[v.lane] : null;
    return (S.noise || !v.n) && (!S.kind || (o && o.k === S.kind)) && (!S.ns || (o && (o.s === S.ns || o.k === "Namespace" && o.n === S.ns))) &&
      (!S.m || v.m === S.m) && (!S.p || v.p === S.p) && (!S.q || S.q.toLowerCase().split(/\s+/).every((w) => text(v).includes(w)));
  }
  const inWindow = (t) => t >= S.from && t <= S.to;
  const badIn = (i) => ofLane[i].some((v) => v.s && inWindow(v.t)) ||
    O[i].b.some((b, n) => b.l === 3 && b.t <= S.to && (n + 1 === O[i].b.length || O[i].b[n + 1].t >= S.from));
  const X = (t) => Math.round((t - S.from) / (S.to - S.from) * width * 10) / 10;

  function layOut() {
    const problem = O.map((o, i) => o.l === i && badIn(i));
    const owns = [...problem]; // what owns a problem has its cause, often
    problem.forEach((is, i) => { for (let o = O[i].o; is && o >= 0; o = O[o].o) owns[o] = true; });
    shown = byTime.filter((v) => passes(v) && (!S.problems || v.lane >= 0 && owns[v.lane]));
    const has = new Set();
    for (const v of shown) if (v.lane >= 0 && inWindow(v.t)) has.add(v.lane);
    if (!S.q && !S.m && !S.p) O.forEach((o, i) => { if (problem[i] && (!S.kind || o.k === S.kind) && (!S.ns || o.s === S.ns)) has.add(i); });
    const keep = new Set();
    for (let i of has) for (; i >= 0 && !keep.has(i); i = O[i].o) keep.add(i);
    const groups = new Map();
    for (const i of keep) if (O[i].o < 0) {
      const o = O[i], key = [o.s || (o.k === "Namespace" ? o.n : "(no namespace)"), o.a].filter(Boolean).join(" · ");
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(i);
    }
    const below = (i) => [i, ...children[i].filter((c) => keep.has(c)).flatMap(below)];
    const first = new Map();
    for (const v of shown) if (v.s && v.lane >= 0) { const r = rootOf(v.lane); if (!first.has(r)) first.set(r, v.t); }
    const firstOf = (i) => first.get(i) ?? Infinity;
    const order = (a, b) => firstOf(a) - firstOf(b) || O[a].k.localeCompare(O[b].k) || O[a].n.localeCompare(O[b].n);
    const all = [...groups].map(([name, roots]) => ({ name, roots: roots.sort(order) }))
      .sort((a, b) => (firstOf(a.roots[0]) - firstOf(b.roots[0]) || 0) || a.name.localeCompare(b.name));
    lanes = [];
    const add = (i, depth) => {
      const kids = children[i].filter((c) => keep.has(c)), fold = folded.has(i) && kids.length > 0;
      lanes.push({ i, depth, kids: kids.length, fold, of: fold ? below(i) : [i], problem: fold ? below(i).some((c) => problem[c]) : problem[i] });
      if (!fold) for (const c of kids.sort((a, b) => (ofLane[a][0]?.t ?? 0) - (ofLane[b][0]?.t ?? 0))) add(c, depth + 1);
    };
    for (const g of all) { lanes.push({ group: g.name }); for (const r of g.roots) add(r, 0); }
    for (const l of lanes) if (!l.group) {
      const own = new Set(l.of);
      l.versions = [];
      l.own = own;
    }
    const at = new Map();
    for (const l of lanes) if (!l.group) for (const i of l.of) at.set(i, l);
    for (const v of shown) if (inWindow(v.t)) at.get(v.lane)?.versions.push(v);
  }

  // The lanes.
  const LANE = 30, BAR = 22, MARK = 8, MOST = 400, ROWS = 150;
  function drawLane(l) {
    const o = O[l.i], box = svg("svg", { class: "track", width, height: LANE, "aria-hidden": "true" });
    const rect = (x, y, w, h) => `M${x} ${y}h${Math.max(w, 1)}v${h}h${-Math.max(w, 1)}z`;
    box.append(svg("path", { class: "grid", d: ticks.map((t) => `M${X(t)} 0v${LANE}`).join("") }));
    const paths = {}, labels = [];
    for (const i of l.of) O[i].b.forEach((b, n) => {
      const next = O[i].b[n + 1], a = Math.max(b.t, S.from), z = Math.min(next ? next.t : S.to, S.to);
      if (b.l < 0 || z < S.from || a > S.to || l.fold && i !== l.i && b.l !== 3) return;
      const x = X(a), w = X(z) - x, high = [1, 3, 12, 12][b.l];
      const k = LEVELS[b.l];
      paths[k] = (paths[k] || "") + rect(x, BAR - high / 2, w, high);
      if (b.l >= 2 && w > b.x.length * 5.6 + 8 && !l.fold) labels.push(svg("text", { x: x + 4, y: BAR + 3.6, class: k, text: b.x }));
    });
    for (const k of ["quiet", "fine", "busy", "bad"]) if (paths[k]) box.append(svg("path", { class: "bar " + k, d: paths[k] }));
    box.append(...labels);
    const st = D.streams[o.w];
    for (const [holes, name] of [[st?.h, "hatch"], [st?.l, "late"]]) for (const h of holes || []) {
      const a = Math.max(h.f || S.from, S.from), b = Math.min(h.t || S.to, S.to), x = X(a), w = Math.max(X(b) - x, h.f && h.t ? 2 : 0);
      if (b > a) box.append(svg("path", { class: name, d: name === "late" ? `M${x} ${LANE - 1.5}h${w}` : rect(x, 0, w, LANE) }, svg("title", { text: `${name === "late" ? "received late" : "not covered"}: ${clock(Math.max(h.f, D.from))} to ${h.t ? clock(h.t) : "the end"}: ${h.y}` })));
    }
    const marks = {};
    let unsure = "", rings = "";
    for (const v of l.versions) {
      const x = X(v.t);
      marks[v.k] = (marks[v.k] || "") + SHAPES[v.k](x, MARK);
      if (v.u) unsure += `M${X(Math.max(v.u, S.from))} ${MARK}H${x}`;
      if (v.r) unsure += `M${x} ${MARK}H${X(Math.min(v.r, S.to))}`;
      if (v.s) rings += `M${x - 7} ${MARK}a7 7 0 1 0 14 0a7 7 0 1 0-14 0z`;
    }
    if (unsure) box.append(svg("path", { class: "unsure", d: unsure }));
    for (const k of "efmcastdwg") if (marks[k]) box.append(svg("path", { class: "mark-" + k, d: marks[k] }));
    if (marks[""]) box.append(svg("path", { class: "mark-e", d: marks[""] }));
    if (rings) box.append(svg("path", { class: "symptom", d: rings }));
    l.box = box;
    return box;
  }
  function stateAt(i, t) { let is = null; for (const b of O[i].b) if (b.t <= t) is = b; return is; }
  function drawLanes() {
    const list = $("lanes"), room = printing ? 210 : list.clientWidth - width, brief = room > 20 && room < 300;
    const nodes = [];
    let n = 0;
    for (const l of lanes) {
      if (n >= MOST) break;
      if (l.group) { nodes.push(el("div", { class: "group", role: "presentation", text: l.group })); continue; }
      n++;
      const o = O[l.i], last = stateAt(l.i, S.to);
      l.node = el("div", { class: "lane" + (l.problem ? " problem" : ""), role: "treeitem", id: "lane" + l.i, "aria-level": l.depth + 1, "aria-expanded": l.kids ? String(!l.fold) : undefined, "aria-selected": "false",
        "aria-label": `${nameOf(o)}, ${plural(l.versions.length, "version")}${last && last.x ? ", " + last.x : ""}` },
      el("span", { class: "label", title: nameOf(o), onclick: () => { cursor = lanes.indexOf(l); if (l.kids) toggle(l); else if (l.versions.length) open(l.versions.at(-1), true); } },
        el("span", { class: "fold", text: l.kids ? (l.fold ? "▸" : "▾") : "" }), el("span", { class: "kind", text: o.k }), " ", el("bdi", { class: o.b.at(-1)?.l < 0 ? "gone" : "", text: brief && o.o >= 0 && o.n.startsWith(O[o.o].n + "-") ? "…" + o.n.slice(O[o.o].n.length) : o.n }),
        l.fold && el("span", { class: "count", text: ` +${l.of.length - 1}` }), !o.r && el("span", { class: "count", text: " not selected" })), drawLane(l));
      l.node.firstChild.style.paddingLeft = `${l.depth * .9}rem`;
      const near = (e) => { const r = l.box.getBoundingClientRect(); return nearest(l, (e.clientX - r.left) * width / r.width); };
      l.box.addEventListener("click", (e) => { cursor = lanes.indexOf(l); const v = near(e); if (v) open(v); });
      l.box.addEventListener("pointermove", (e) => { const v = near(e); l.box.style.cursor = v ? "pointer" : ""; if (v) light(v); });
      nodes.push(l.node);
    }
    const left = lanes.filter((l) => !l.group).length - n;
    if (left > 0) nodes.push(el("p", { class: "detail", text: `and ${plural(left, "more object")}: narrow the time or the filters` }));
    if (!n) nodes.push(el("p", { class: "detail", text: V.length ? "Nothing passes the filters in this time." : "The journal has no version of that in this time." }));
    list.replaceChildren(...nodes);
    $("lanecount").textContent = plural(lanes.filter((l) => !l.group).length, "lane");
  }
  function nearest(l, x) {
    let best = null, far = 9;
    for (const v of l.versions) { const d = Math.abs(X(v.t) - x) + (v.n ? 1 : 0); if (d < far) { far = d; best = v; } }
    return best;
  }
  function toggle(l) {
    if (!l.kids) return;
    if (folded.has(l.i)) folded.delete(l.i); else folded.add(l.i);
    layOut(); drawLanes(); cursor = lanes.findIndex((x) => x.i === l.i); point();
  }
  const laneOf = (v) => lanes.find((l) => !l.group && l.own.has(v.lane));

  // The ruler: how much happened over all of the time that was asked for, and which part is shown.
  let drag = null;
  const STEPS = [.001, .01, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((s) => s * 1000);
  let ticks = [], step = 1000;
  function measure() {
    width = printing ? 440 : Math.max(160, $("ruler").clientWidth || 900);
    const span = S.to - S.from;
    step = STEPS.find((s) => span / s <= width / 85) || span;
    const zone = S.utc ? 0 : new Date(S.from).getTimezoneOffset() * 60000;
    ticks = [];
    for (let t = Math.ceil((S.from - zone) / step) * step + zone; t <= S.to; t += step) ticks.push(t);
  }
  function drawRuler() {
    measure();
    const W = width, H = 56, bins = Math.min(160, Math.floor(W / 6)), span = D.to - D.from;
    const all = new Array(bins).fill(0), bad = new Array(bins).fill(0);
    for (const v of shown) {
      const b = Math.min(bins - 1, Math.floor((v.t - D.from) / span * bins));
      if (b >= 0) { all[b]++; if (v.s) bad[b]++; }
    }
    const top = Math.max(1, ...all), x = (b) => b * W / bins, high = (n) => n ? Math.max(2, Math.sqrt(n / top) * (H - 14)) : 0;
    let d = "", e = "";
    all.forEach((n, b) => { if (n) d += `M${x(b)} ${H}v${-high(n)}h${W / bins - 1}v${high(n)}z`; if (bad[b]) e += `M${x(b)} ${H}v${-high(bad[b])}h${W / bins - 1}v${high(bad[b])}zM${x(b) + W / bins / 2} 1l4 7h-8z`; });
    const px = (t) => (t - D.from) / span * W, a = px(S.from), z = px(S.to), same = S.from === D.from && S.to === D.to;
    const box = svg("svg", { width: W, height: H + 10, role: "img", "aria-label": `Versions over time, at most ${top} at once` },
      svg("path", { class: "funnel", d: `M${a} ${H}H${z}L${W} ${H + 10}H0z` }),
      svg("path", { class: "histogram", d }), svg("path", { class: "histogram bad", d: e }),
      ...[D.since, D.until].filter((t) => t !== D.from && t !== D.to).map((t) => svg("path", { class: "asked", d: `M${px(t)} 0v${H}` })),
      svg("rect", { class: "outside", x: 0, y: 0, width: Math.max(0, a), height: H }), svg("rect", { class: "outside", x: z, y: 0, width: Math.max(0, W - z), height: H }),
      svg("rect", { class: "brush", x: a + .5, y: .5, width: Math.max(2, z - a - 1), height: H - 1 }),
      !same && svg("text", { x: 3, y: 12, text: clock(D.from) }), !same && svg("text", { x: W - 3, y: 12, "text-anchor": "end", text: clock(D.to) }));
    box.addEventListener("pointerdown", (e) => { drag = { x: e.offsetX, W }; box.setPointerCapture(e.pointerId); e.preventDefault(); });
    box.addEventListener("pointermove", (e) => { if (drag) { const r = box.querySelector(".brush"); r.setAttribute("x", Math.min(drag.x, e.offsetX)); r.setAttribute("width", Math.abs(e.offsetX - drag.x)); } });
    box.addEventListener("pointerup", (e) => {
      if (!drag) return;
      const [a, b] = [drag.x, e.offsetX].sort((p, q) => p - q);
      drag = null;
      if (b - a > 4) zoom(D.from + a / W * span, D.from + b / W * span); else zoom(D.from, D.to);
    });
    $("ruler").replaceChildren(box);
    const label = (t) => step < 1000 ? clock(t, 1) : step >= 86400000 ? day(t).slice(5) : step >= 60000 ? clock(t).slice(0, 5) : clock(t);
    $("axis").replaceChildren(svg("svg", { width: W, height: 16, "aria-hidden": "true" }, ...ticks.filter((t) => X(t) > 24 && X(t) < W - 24).map((t) => svg("text", { x: X(t), y: 12, "text-anchor": "middle", text: label(t) }))));
    $("windows").textContent = `asked for: ${day(D.since)} ${clock(D.since)} to ${clock(D.until)} ${zone()}` + (same ? ", all of it shown" : `; shown: ${clock(S.from, 1)} to ${clock(S.to, 1)}`);
  }
  function zoom(a, b) {
    const least = 100;
    a = Math.max(D.from, a); b = Math.min(D.to, b);
    if (b - a < least) b = a + least;
    S.from = a; S.to = b; more = 0;
    draw();
  }
  const scale = (f) => { const c = S.v && inWindow(S.v.t) ? S.v.t : (S.from + S.to) / 2, w = (S.to - S.from) * f; let a = Math.max(D.from, c - (c - S.from) * f); zoom(a, Math.min(D.to, a + w)); };
  const pan = (f) => { const w = S.to - S.from, a = Math.min(Math.max(D.from, S.from + w * f), D.to - w); zoom(a, a + w); };

  // The rows.
  function drawRows() {
    const rows = shown.filter((v) => inWindow(v.t)), most = Math.max(ROWS + more, printing ? 1000 : 0);
    const body = $("rows");
    body.replaceChildren(...rows.slice(0, most).map((v) => el("tr", { id: "row" + v.q, class: (v.s ? "bad" : "") + (S.v === v ? " open" : ""), onclick: () => open(v), onpointerenter: () => light(v), onfocusin: () => light(v) },
      el("td", { class: "time", "data-label": "Time" }, el("button", { class: "link", text: when(v.t) + (v.r ? "*" : ""), title: v.r ? `made then, received ${clock(v.r)}` : `${day(v.t)} ${clock(v.t, 1)}, seq ${v.q}` })),
      el("td", { "data-label": "Change" }, shape(v.k), " ", v.y),
      el("td", { "data-label": "Object" }, el("bdi", { text: v.o >= 0 ? nameOf(O[v.o]) : "stream" })), el("td", { "data-label": "Who" }, el("bdi", { text: v.w || "–" })),
      el("td", { class: "what", "data-label": "What" }, v.s && el("b", { class: "sym", text: v.s + "  " }), el("bdi", { text: v.x })))));
    const left = rows.length - most;
    $("rowcount").textContent = plural(rows.length, "version") + (S.noise ? "" : " without noise");
    $("more").hidden = left <= 0;
    $("more").textContent = `Show ${Math.min(left, ROWS)} more of ${left}`;
  }
  const shape = (k) => svg("svg", { class: "shape mark-" + (k || "e"), viewBox: "-7 -7 14 14", role: "img" }, svg("title", { text: KINDS[k] }), svg("path", { d: SHAPES[k](0, 0) }));

  // A version lights up in its lane and in its row.
  let lit = null;
  function light(v) {
    if (lit === v) return;
    lit = v;
    document.querySelectorAll(".lit").forEach((n) => n.classList.remove("lit"));
    document.querySelectorAll(".ring").forEach((n) => n.remove());
    if (!v) return;
    $("row" + v.q)?.classList.add("lit");
    const l = laneOf(v);
    if (l?.box) { l.node.classList.add("lit"); l.box.append(svg("circle", { class: "ring", cx: X(v.t), cy: MARK, r: 8.5 })); }
    $("status").replaceChildren(shape(v.k), " ", el("b", { text: `${clock(v.t, S.to - S.from < 60000)} ${v.o >= 0 ? nameOf(O[v.o]) : ""}` }), ` ${KINDS[v.k]}${v.w ? " by " + v.w : ""}${v.x ? ": " + v.x : ""}`);
  }
  function point() {
    document.querySelectorAll("[aria-selected=true]").forEach((n) => n.setAttribute("aria-selected", "false"));
    const l = lanes[cursor];
    if (!l?.node) return;
    l.node.setAttribute("aria-selected", "true");
    $("lanes").setAttribute("aria-activedescendant", l.node.id);
    l.node.scrollIntoView({ block: "nearest" });
  }

  // The YAML of a version, and what it changed in it.
  const split = (y) => (y ? y.slice(0, -1).split("\n").map((l) => { const i = l.indexOf("\t"); return { w: l.slice(0, i), t: l.slice(i + 1) }; }) : []);
  function documentAt(v) {
    let lines = split(O[v.o].y), before = [], hunks = [];
    for (const u of ofObject[v.o]) {
      if (u === v) { before = lines; hunks = u.d || []; }
      if (u.d) {
        lines = [...lines];
        for (const [at, n, y] of [...u.d].reverse()) lines.splice(at, n, ...split(y));
      }
      if (u === v) break;
    }
    return { lines, before, hunks };
  }
  // A text with a button for each line of the journal that it names and the page has.
  const linked = (text) => text.split(/(\bseq \d+)/).map((t, i) => { const u = i % 2 && bySeq.get(Number(t.slice(4))); return u ? el("button", { class: "link", text: t, onclick: () => open(u, true) }) : t; });
  function diffOf({ before, hunks }) {
    const all = [], near = 3;
    let last = 0;
    for (const [i, [at, n, y]] of hunks.entries()) {
      let gone = before.slice(at, at + n), come = split(y), begin = at;
      while (gone.length && come.length && gone[0].t === come[0].t) { gone = gone.slice(1); come.shift(); begin++; }
      while (gone.length && come.length && gone.at(-1).t === come.at(-1).t) { gone = gone.slice(0, -1); come.pop(); }
      if (!gone.length && !come.length) continue;
      const from = Math.max(last, begin - near);
      if (all.length && from > last) all.push(["…", ""]);
      for (const l of before.slice(from, begin)) all.push([" ", l.t]);
      for (const l of gone) all.push(["-", l.t]);
      for (const l of come) all.push(["+", l.t]);
      last = begin + gone.length;
      const until = Math.min(last + near, hunks[i + 1]?.[0] ?? Infinity);
      for (const l of before.slice(last, until)) all.push([" ", l.t]);
      last = Math.min(until, before.length);
    }
    return all;
  }
  const word = (t) => (/^[A-Za-z0-9_.,:\/+@%=-]+$/.test(t) ? t : "'" + t.replaceAll("'", "'\\''") + "'");
  const command = (...c) => el("code", { class: "command", tabindex: "0", text: "kubejournal " + c.filter(Boolean).join(" ") });
  function open(v, focus) {
    S.v = v;
    const o = v.o >= 0 ? O[v.o] : null, mine = o ? ofLane[v.lane] : V.filter((u) => u.o < 0), n = mine.indexOf(v);
    const go = (to, t, key) => el("button", { text: t, title: `${t} version of this lane (${key})`, disabled: !to, onclick: () => open(to, true) });
    const body = [];
    if (v.s) body.push(el("p", { class: "sym", text: "Symptom: " + v.s }));
    if (v.r) body.push(el("p", { class: "detail", text: `Late: made ${clock(v.t)}, received ${clock(v.r, 1)}.` }));
    if (v.u) body.push(el("p", { class: "detail", text: `The change was made between ${clock(v.u)} and ${clock(v.t)}: it was received late, or found after a gap.` }));
    body.push(el("p", {}, el("bdi", { text: v.x || KINDS[v.k] })));
    if (o) {
      const at = D.merged ? new Date(v.r || v.t).toISOString() : "seq:" + v.q, ref = word(`${o.r}/${o.n}`), ns = o.s && "-n " + word(o.s);
      const why = D.why[v.ix];
      if (why) body.push(el("h3", { text: "Why" }), el("div", { class: "why" }, ...why.trim().split("\n").map((t) => { const c = t.split("\t"); return c.length < 4 ? el("p", { class: "detail", text: t }) : el("div", { class: "cause" }, el("span", { class: "time", text: c[0] }), el("bdi", {}, el("b", { text: c[1] }), " ", c[2]), el("span", {}, ...linked(c[3]))); })));
      const doc = documentAt(v), diff = diffOf(doc);
      if (v.y !== "ADDED" && !v.i) {
        body.push(el("h3", { text: "Diff" + (v.y === "DELETED" ? " to the last state" : "") }), diff.length ? el("pre", { class: "diff" }, ...diff.map(([m, t]) => el("span", { class: { "+": "come", "-": "went" }[m] || "", text: m + " " + t }))) : el("p", { class: "detail", text: doc.before.length ? "Nothing differs but bookkeeping." : "The version before is not in the journal." }));
      }
      body.push(el("h3", { text: "YAML, and who wrote each line" }));
      if (v.i) body.push(el("p", { class: "detail", text: `Not on the page: ${v.i}.` }));
      else {
        let above = null;
        body.push(el("div", { class: "yaml" }, ...doc.lines.map((l) => {
          const seq = parseInt(l.w, 10), u = bySeq.get(seq), inexact = /[a-z]$/.test(l.w);
          const who = l.w === above ? "" : !l.w ? "before" : inexact ? `until ${u ? clock(u.t) : seq}` : u ? `${clock(u.t)} ${u.w || "–"}` : "seq " + seq;
          above = l.w;
          return el("div", { class: seq === v.q ? "new" : "" }, u && who ? el("button", { class: "who link", text: who, title: `seq ${seq}${inexact ? ", not known exactly" : ""}`, onclick: () => open(u, true) }) : el("span", { class: "who", text: who, title: l.w ? "" : "older than this page" }), el("span", { class: "line", text: l.t }));
        })), el("p", { class: "detail", text: "Without managedFields, resourceVersion, generation and last-applied-configuration. “before” is older than this page, “until” not known exactly." }));
      }
      body.push(el("h3", { text: "The same, from the journal" }), command("get", ref, ns, "--at", at, "-o yaml", D.flags), command("blame", ref, ns, "--at", at, D.flags), command("why", ref, ns, "--at", at, D.flags), command("history", ref, ns, "--patch --all", D.flags));
    } else body.push(el("p", { class: "detail", text: "A GAP says that the server’s history was gone; what follows it, up to SYNCED, is the net difference." }));
    $("drawer").replaceChildren(
      el("div", { class: "head" }, el("h2", { id: "drawertitle", tabindex: "-1" }, shape(v.k), " ", el("bdi", { text: o ? nameOf(o) : "stream" })),
        el("p", { class: "detail", text: `${day(v.t)} ${clock(v.t, 1)} ${zone()} · ${v.y} · ${KINDS[v.k]} · ${v.w ? "by " + v.w : "writer not known"} · seq ${v.q}` }),
        el("div", { class: "buttons" }, go(mine[n - 1], "Previous", "←"), go(mine[n + 1], "Next", "→"), el("a", { href: "#seq=" + v.q, text: "link" }), $("served") && el("button", { text: "Serve this moment", title: "to kubectl and other clients", onclick: () => serve(v) }), el("button", { text: "Close", title: "Esc", onclick: close }))),
      ...body);
    $("drawer").hidden = false;
    document.body.classList.add("drawn");
    document.querySelectorAll("tr.open").forEach((r) => r.classList.remove("open"));
    $("row" + v.q)?.classList.add("open");
    lit = null; light(v);
    const l = lanes.findIndex((x) => !x.group && x.own.has(v.lane));
    if (l >= 0) { cursor = l; point(); }
    if (focus) $("drawertitle").focus({ preventScroll: true });
    writeFragment();
  }
  // Has the server of the page serve the moment of a version.
  async function serve(v) {
    let said;
    try {
      const answer = await fetch($("served").dataset.moment, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ at: D.merged ? new Date((v.r || v.t) + 1).toISOString() : "seq:" + v.q }) });
      const is = await answer.json();
      said = answer.ok ? "kubectl sees the past " + is.says : is.message;
    } catch (e) { said = "The server does not answer: " + e.message; }
    $("served").textContent = said;
    $("served").scrollIntoView({ block: "nearest" });
  }
  function close() {
    $("drawer").hidden = true;
    document.body.classList.remove("drawn");
    document.querySelectorAll("tr.open").forEach((r) => r.classList.remove("open"));
    S.v = null;
    writeFragment();
    $("lanes").focus({ preventScroll: true });
  }

  // What changed before a symptom.
  function drawFirst() {
    const box = $("first");
    if (!D.symptoms.length) {
      box.replaceChildren(el("p", { class: "detail", text: "No symptom in this time: no object’s state became bad, no container restarted, no Event of type Warning." }));
      return;
    }
    const s = D.symptoms[S.s], v = V[s.v];
    const label = (w) => `${clock(w.t)} ${nameOf(O[w.lane])}: ${w.s}`;
    box.replaceChildren(
      el("p", { class: "symptomline" }, el("label", { text: S.s ? "Symptom " : "First symptom ", for: "symptom" }),
        el("select", { id: "symptom", onchange: (e) => { S.s = Number(e.target.value); drawFirst(); writeFragment(); } }, ...D.symptoms.map((w, i) => el("option", { value: i, selected: i === S.s, text: label(V[w.v]) }))), " ",
        el("button", { text: "Show", onclick: () => { if (!inWindow(v.t)) zoom(D.from, D.to); open(v, true); } })),
      el("p", { class: "what" }, el("bdi", { text: v.x })),
      el("div", { class: "bar" }, el("h2", { text: "What changed just before" }), s.r.length > 0 && el("p", { class: "detail", text: "rank: how close + what changed + who wrote it" })),
      s.r.length ? el("ol", { class: "ranked" }, ...s.r.map((r) => { const c = V[r.v]; return el("li", {}, el("button", { class: "row", onclick: () => { if (!inWindow(c.t)) zoom(D.from, D.to); open(c, true); } },
        shape(c.k), el("span", { class: "time", text: clock(c.t) }), el("bdi", { class: "obj", text: nameOf(O[c.o]) }), el("bdi", { class: "by", text: c.w || "writer not known" }), el("bdi", { class: "what", text: c.x || KINDS[c.k] }), el("span", { class: "points", title: "closeness + change + writer", text: `${r.p.join("+")} = ${r.p[0] + r.p[1] + r.p[2]}` }))); }))
        : el("p", { class: "detail", text: "Nothing on this page, in the 10 minutes before. An earlier --since, or more objects, may show it." }),
      el("details", {}, el("summary", { text: "How these are ranked" }), el("p", { class: "detail", text: D.rule })));
  }

  let printing = false;
  function draw() {
    layOut(); drawRuler(); drawLanes(); drawRows();
    lit = null;
    if (S.v) light(S.v);
    writeFragment();
    $("controls").querySelectorAll("[data-key]").forEach((n) => { if (n.type === "checkbox") n.checked = S[n.dataset.key]; else if (n !== document.activeElement) n.value = S[n.dataset.key]; });
    $("asked").textContent = `${day(D.since)} ${clock(D.since)} to ${day(D.until) === day(D.since) ? "" : day(D.until) + " "}${clock(D.until)} ${zone()}: ${plural(V.length, "version")} of ${plural(O.filter((o) => o.l === o.i && o.r).length, "object")}`;
    $("zone").textContent = zone();
  }

  function build() {
    const options = (all) => [...new Set(all)].filter(Boolean).sort((a, b) => a.localeCompare(b));
    const pick = (key, title, all) => options(all).length > 0 && el("select", { "data-key": key, "aria-label": title, onchange: (e) => { S[key] = e.target.value; more = 0; draw(); } }, el("option", { value: "", text: title + ": all" }), ...options(all).map((x) => el("option", { value: x, text: x })));
    const check = (key, title, k) => el("label", {}, el("input", { type: "checkbox", "data-key": key, onchange: (e) => { S[key] = e.target.checked; more = 0; draw(); } }), " " + title, el("kbd", { text: k }));
    const button = (t, title, f) => el("button", { text: t, title, "aria-label": title, onclick: f });
    const isLane = O.filter((o) => o.l === o.i);
    $("app").append(
      el("div", { id: "controls", class: "card", role: "search" },
        el("input", { type: "search", "data-key": "q", placeholder: "Find text  /", "aria-label": "Find text", oninput: (e) => { S.q = e.target.value; more = 0; draw(); } }),
        pick("kind", "Kind", isLane.map((o) => o.k)), pick("ns", "Namespace", O.map((o) => o.s)), pick("m", "Manager", V.map((v) => v.m)), pick("p", "Person", V.map((v) => v.p)),
        check("problems", "Problems only", "x"), check("noise", "Noise too", "a"), check("utc", "UTC", "u"),
        el("span", { class: "buttons" }, button("−", "Zoom out (-)", () => scale(2)), button("+", "Zoom in (+)", () => scale(.5)), button("‹", "Earlier ([)", () => pan(-.5)), button("›", "Later (])", () => pan(.5)), button("All", "The time asked for (0)", () => zoom(D.from, D.to)), button("Fold", "Fold or unfold all (e)", foldAll), button("?", "Keys (?)", help))),
      el("section", { class: "card", id: "timeline", "aria-label": "Timeline" },
        el("div", { id: "rulerbox" }, el("div", { class: "bar" }, el("h2", { text: "Timeline" }), el("p", { class: "detail" }, el("span", { id: "lanecount" }), " · ", el("span", { id: "windows" }), el("span", { class: "how", text: " · drag to zoom, click for all" }))), el("p", { id: "status", role: "status", "aria-live": "polite" }), el("div", { id: "ruler" }), el("div", { id: "axis" })),
        el("div", { id: "lanes", role: "tree", tabindex: "0", "aria-label": "Objects: arrow keys move, Enter opens" }),
        legend()),
      el("section", { class: "card", "aria-label": "Versions" }, el("div", { class: "bar" }, el("h2", { text: "Versions" }), el("p", { class: "detail" }, el("span", { id: "rowcount" }), ", times in ", el("span", { id: "zone" }), "; * is when a change was made that was received late")),
        el("table", { id: "table" }, el("thead", {}, el("tr", {}, ...["Time", "Change", "Object", "Who", "What"].map((t) => el("th", { scope: "col", text: t })))), el("tbody", { id: "rows" })), el("button", { id: "more", hidden: true, onclick: () => { more += ROWS; drawRows(); } })),
      el("section", { class: "card", "aria-label": "Commands" }, el("h2", { text: "The same, from the journal" }),
        el("dl", {}, ...[["Versions", command("history", D.args, "--all", D.flags)], ["In short", command("history", D.args, D.flags)], ["Warnings", command("history", D.args, "--warnings", D.flags)], ["Deletions", command("history", D.args, "--deleted", D.flags)], ["Not covered", command("coverage", D.flags)], ["This page", command("report", D.args, "-o incident.html", D.flags)]].flatMap(([t, c]) => [el("dt", { text: t }), el("dd", {}, c)])),
        el("p", { class: "detail", text: "A version’s panel has the commands for its YAML, blame and why. What was not written down is on no page: see “Not covered”." })),
      el("aside", { id: "drawer", hidden: true, "aria-label": "Version" }),
      el("div", { id: "help", role: "dialog", "aria-label": "Keys", hidden: true }, el("h2", { text: "Keys" }), el("dl", {}, ...[["↑ ↓", "object before, after"], ["← →", "its version before, after"], ["Enter", "open the version, or what is nearest"], ["Space", "fold or unfold the object"], ["n p", "next, previous version of all"], ["s", "first symptom"], ["+ − [ ] 0", "zoom, move, all of the time"], ["/", "find text"], ["x a u e", "problems only, noise too, UTC, fold all"], ["Esc", "close"]].flatMap(([k, t]) => [el("dt", {}, el("kbd", { text: k })), el("dd", { text: t })])), el("button", { text: "Close", onclick: help })),
      svg("svg", { width: 0, height: 0, class: "defs", "aria-hidden": "true" }, svg("defs", {}, svg("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: 2, height: 7, class: "hatchline" })))));
    $("app").hidden = false;
  }
  function legend() {
    return el("details", { id: "legend" }, el("summary", { text: "What the shapes mean" }), el("p", {}, ...[..."asmtdcwfeg"].map((k) => el("span", {}, shape(k), " " + KINDS[k])), el("span", {}, svg("svg", { class: "shape", viewBox: "-8 -8 16 16" }, svg("circle", { class: "symptom", r: 6.5 })), " a symptom")),
      el("p", {}, ...[["fine", "fine: a thin bar"], ["busy", "on its way: an outlined bar"], ["bad", "bad: a full bar"], ["quiet", "there: a line"]].map(([k, t]) => el("span", {}, svg("svg", { class: "shape", viewBox: "0 0 14 14" }, svg("path", { class: "bar " + k, d: `M0 ${7 - { fine: 3, busy: 12, bad: 12, quiet: 1 }[k] / 2}h14v${{ fine: 3, busy: 12, bad: 12, quiet: 1 }[k]}h-14z` })), " " + t)),
        el("span", {}, svg("svg", { class: "shape", viewBox: "0 0 14 14" }, svg("rect", { class: "hatch", width: 14, height: 14 })), " not covered: a bar there is what was known last"), el("span", {}, svg("svg", { class: "shape", viewBox: "0 0 14 14" }, svg("path", { class: "late", d: "M0 9h14" })), " read late; a dashed line is when a change may have been made")));
  }
  function foldAll() {
    if (folded.size) folded.clear(); else children.forEach((c, i) => { if (c.length) folded.add(i); });
    draw();
  }
  let back = null;
  function help() {
    $("help").hidden = !$("help").hidden;
    if ($("help").hidden) back?.focus(); else { back = document.activeElement; $("help").querySelector("button").focus(); }
  }

  function key(e) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (e.key === "Escape") {
      if (!$("help").hidden) help(); else if (typing) { e.target.blur(); $("lanes").focus(); } else if (S.v) close();
      return;
    }
    if (typing && e.target.type !== "checkbox" || e.ctrlKey || e.metaKey || e.altKey) return;
    const inLanes = e.target.id === "lanes", inDrawer = $("drawer").contains(e.target), l = lanes[cursor];
    const near = () => lit && l?.own?.has(lit.lane) ? lit : null;
    const step = (by) => {
      if (!l || l.group) return;
      const n = near() ? l.versions.indexOf(near()) + by : by > 0 ? 0 : l.versions.length - 1, v = l.versions[n];
      if (v) S.v ? open(v) : light(v);
    };
    const move = (by) => { let n = cursor + by; while (lanes[n]?.group) n += by; if (lanes[n]?.node) { cursor = n; point(); } };
    const across = (by) => {
      const all = shown.filter((v) => inWindow(v.t)), n = all.indexOf(S.v || lit), v = all[n < 0 ? (by > 0 ? 0 : all.length - 1) : n + by];
      if (v) { open(v); $("row" + v.q)?.scrollIntoView({ block: "nearest" }); }
    };
    const lane = { ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: () => step(1), ArrowLeft: () => step(-1), Enter: () => { const v = near() || l?.versions?.[0]; if (v) open(v, true); }, " ": () => l && !l.group && toggle(l) };
    const drawer = { ArrowRight: () => $("drawer").querySelectorAll(".buttons button")[1].click(), ArrowLeft: () => $("drawer").querySelectorAll(".buttons button")[0].click() };
    const flip = (k) => () => { S[k] = !S[k]; draw(); };
    const any = { n: () => across(1), p: () => across(-1), "+": () => scale(.5), "=": () => scale(.5), "-": () => scale(2), 0: () => zoom(D.from, D.to), "[": () => pan(-.5), "]": () => pan(.5), x: flip("problems"), a: flip("noise"), u: () => { flip("utc")(); drawFirst(); if (S.v) open(S.v); }, e: foldAll, "?": help,
      "/": () => $("controls").querySelector("input").focus(), s: () => D.symptoms.length && open(V[D.symptoms[S.s].v], true) };
    const f = inLanes && lane[e.key] || inDrawer && drawer[e.key] || any[e.key];
    if (f) { e.preventDefault(); f(); }
  }

  readFragment();
  build();
  if (O.filter((o) => o.l === o.i && ofLane[o.i].some((v) => !v.n)).length > 60) children.forEach((c, i) => { if (c.length && O[i].o >= 0) folded.add(i); });
  drawFirst();
  draw();
  if (S.v) open(S.v);
  addEventListener("keydown", key);
  addEventListener("hashchange", () => { readFragment(); drawFirst(); draw(); if (S.v) open(S.v); });
  let resized = 0;
  addEventListener("resize", () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(() => { drawRuler(); drawLanes(); }); });
  addEventListener("beforeprint", () => { printing = true; document.querySelectorAll("details").forEach((d) => { d.open = true; }); drawRuler(); drawLanes(); drawRows(); });
  addEventListener("afterprint", () => { printing = false; drawRuler(); drawLanes(); drawRows(); });
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
