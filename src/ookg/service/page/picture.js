// The neighbourhood as a picture. What it shows is also in the list of facts beside it, which needs no eyes.

import { announce, el, icon } from "./dom.js";
import { count, counted, entityAddress, labelOf, named, shortened } from "./words.js";

const EXPANDED = 8;
const STEP = 150;
const ARC = 78;
const NARROW = 480;
const DRAWN_NARROW = 9;
const READABLE = 0.9;
const NODE_LABEL = 40;
const EDGE_LABEL = 18;
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let library = null;

/** Cytoscape.js, fetched when the first picture is drawn. */
async function cytoscape() {
  library ??= import("./vendor/cytoscape.min.js");
  await library;
  return globalThis.cytoscape;
}

/** The colours of the page as the drawing needs them: resolved, for the scheme that is on. */
function colours() {
  const probe = el("span", { hidden: true });
  document.body.append(probe);
  const resolved = {};
  for (const name of ["accent", "accent-soft", "ink", "muted", "line-strong", "surface", "sunken"]) {
    probe.style.color = `var(--${name})`;
    resolved[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return resolved;
}

/** scale: how much larger than usual things must be drawn to be read at the present zoom. */
function styles(scale = 1) {
  const c = colours();
  const font = getComputedStyle(document.body).fontFamily;
  return [
    {
      selector: "node",
      style: {
        width: 16 * scale,
        height: 16 * scale,
        "background-color": c["surface"],
        "border-width": 2,
        "border-color": c["muted"],
        label: "data(label)",
        color: c["ink"],
        "font-family": font,
        "font-size": 12.5 * scale,
        "text-valign": "bottom",
        "text-margin-y": 5,
        "text-wrap": "wrap",
        "text-max-width": 120 * scale,
        "text-background-color": c["sunken"],
        "text-background-opacity": 0.85,
        "text-background-padding": 2,
        "overlay-opacity": 0,
      },
    },
    { selector: "node.unbroken", style: { "text-overflow-wrap": "anywhere" } },
    { selector: "node.above", style: { "text-valign": "top", "text-margin-y": -5 } },
    { selector: "node.expanded", style: { "background-color": c["muted"] } },
    { selector: "node.new", style: { "border-color": c["accent"], "border-style": "dashed" } },
    {
      selector: "node.centre",
      style: {
        width: 26 * scale,
        height: 26 * scale,
        "background-color": c["accent"],
        "border-color": c["accent"],
        "font-weight": 600,
        "font-size": 14 * scale,
      },
    },
    {
      selector: "node.centre.new",
      style: { "background-color": c["accent-soft"], "border-width": 3, "border-style": "dashed" },
    },
    { selector: "node.answer", style: { "border-color": c["accent"], "background-color": c["accent-soft"] } },
    {
      selector: "edge",
      style: {
        width: 1.4,
        "line-color": c["line-strong"],
        "target-arrow-color": c["line-strong"],
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.8,
        "curve-style": "bezier",
        label: "data(label)",
        color: c["muted"],
        "font-family": font,
        "font-size": 10.5 * scale,
        "text-rotation": "autorotate",
        "text-background-color": c["sunken"],
        "text-background-opacity": 0.9,
        "text-background-padding": 2,
        "overlay-opacity": 0,
      },
    },
    { selector: "edge.added", style: { "line-color": c["accent"], "target-arrow-color": c["accent"], width: 1.8 } },
    {
      selector: "edge.answer",
      style: {
        "line-color": c["accent"],
        "target-arrow-color": c["accent"],
        "line-style": "dashed",
        color: c["accent"],
      },
    },
    { selector: ".later", style: { opacity: 0.5 } },
    { selector: "node.selected", style: { "border-width": 4, "border-color": c["accent"], "font-weight": 600 } },
  ];
}

/**
 * Where each node goes: around the centre, each as far out as it is steps away, in a sector of its own below the node
 * that it came with. The same facts always give the same picture. Returns a map from node to {x, y}.
 */
function radial(centre, childrenOf, stretch) {
  const weights = new Map();
  const weigh = (node) => {
    const sum = childrenOf(node).reduce((total, child) => total + weigh(child), 0);
    weights.set(node, Math.max(1, sum * 0.6));
    return weights.get(node);
  };
  weigh(centre);
  const places = new Map();
  const put = (node, depth, from, to) => {
    const children = childrenOf(node);
    const total = children.reduce((sum, child) => sum + weights.get(child), 0);
    const isCrowded = children.length * ARC > (to - from) * STEP * (depth + 1) ** 1.2;
    let angle = from;
    children.forEach((child, place) => {
      const share = ((to - from) * weights.get(child)) / total;
      const middle = angle + share / 2;
      // Where a ring is crowded, every other node stands further out, so that labels have room.
      const out = isCrowded && place % 2 ? 0.5 : 0;
      const radius = STEP * ((depth + 1) ** 1.2 + out);
      places.set(child, { x: radius * stretch * Math.cos(middle), y: radius * Math.sin(middle) });
      put(child, depth + 1, angle, angle + share);
      angle += share;
    });
  };
  places.set(centre, { x: 0, y: 0 });
  const first = childrenOf(centre)[0];
  const half = first ? (Math.PI * weights.get(first)) / childrenOf(centre).reduce((sum, child) => sum + weights.get(child), 0) : 0;
  put(centre, 0, -Math.PI / 2 - half, 1.5 * Math.PI - half);
  return places;
}

export class Picture {
  /** fetchFacts(id, limit): the facts of an entity; onOpen(id): show that entity's own page. */
  constructor({ centre, fetchFacts, onOpen }) {
    this.centre = centre;
    this.fetchFacts = fetchFacts;
    this.onOpen = onOpen;
    this.selected = null;
    this.isDrawn = false;
    this.scale = 1;
    this.total = 0;
    this.canvas = el("div", {
      class: "picture-canvas",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "graph",
      "aria-label": `Neighbourhood of ${labelOf(centre.id, centre.name)}`,
      "aria-describedby": "picture-keys",
    });
    this.about = el("div", { class: "picture-about" });
    const tool = (name, label, run) =>
      el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, on: { click: run } }, icon(name));
    this.element = el(
      "div",
      { class: "picture" },
      this.canvas,
      el(
        "div",
        { class: "picture-tools" },
        tool("plus", "Zoom in", () => this.zoom(1.3)),
        tool("minus", "Zoom out", () => this.zoom(1 / 1.3)),
        tool("fit", "Show all", () => this.fit()),
      ),
      this.about,
      el(
        "p",
        { class: "visually-hidden", id: "picture-keys" },
        "Arrow keys go from node to node, Enter shows more of a node’s neighbours, O opens its page, plus and minus zoom, 0 shows all, Escape lets go. The facts are in the list below, too.",
      ),
    );
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.themes = matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => this.graph?.style(styles(this.scale));
    this.themes.addEventListener("change", this.restyle);
    document.addEventListener("themechange", this.restyle);
    this.tellHowTo();
  }

  /** facts: of `total` that there are; a small picture shows fewer. */
  async draw(facts, total) {
    const create = await cytoscape();
    if (!this.canvas.isConnected) return;
    this.graph = create({
      container: this.canvas,
      style: styles(),
      minZoom: 0.2,
      maxZoom: 2.5,
      boxSelectionEnabled: false,
      autounselectify: true,
      // Scrolling the page must not get caught in the picture; pinching and the buttons zoom.
      userZoomingEnabled: true,
    });
    this.canvas.addEventListener("wheel", (event) => !event.ctrlKey && event.stopPropagation(), { capture: true });
    this.node(this.centre).addClass("centre expanded");
    if (this.centre.isNew) this.at(this.centre.id).addClass("new");
    this.graph.on("tap", "node", (event) => {
      this.select(event.target);
      this.expand(event.target.data("entity"));
    });
    this.graph.on("tap", (event) => event.target === this.graph && this.select(null));
    this.watch = new ResizeObserver(() => {
      this.graph.resize();
      this.fit();
    });
    this.watch.observe(this.canvas);
    this.total = total;
    this.add(this.centre.id, facts.slice(0, this.canvas.clientWidth < NARROW ? DRAWN_NARROW : facts.length));
    this.tellHowTo();
  }

  destroy() {
    this.watch?.disconnect();
    this.themes.removeEventListener("change", this.restyle);
    document.removeEventListener("themechange", this.restyle);
    this.graph?.destroy();
    this.graph = null;
  }

  /** The node of an entity. */
  at(id) {
    return this.graph.getElementById(`node ${id}`);
  }

  /** The node of an entity, put into the picture where it is not there yet; around: whose neighbour it came as. */
  node({ id, name }, around = null) {
    const there = this.at(id);
    if (there.nonempty()) return there;
    const label = shortened(labelOf(id, name), NODE_LABEL);
    const position = around === null ? { x: 0, y: 0 } : { ...this.at(around).position() };
    return this.graph.add({
      group: "nodes",
      data: { id: `node ${id}`, entity: id, label, name: name ?? null, around },
      position,
      classes: /\S{20}/.test(label) ? "unbroken" : "",
    });
  }

  /** Draw facts around the entity that they belong to. Returns how many are new to the picture. */
  add(around, facts) {
    if (!this.graph) return 0;
    const edges = facts.filter((fact) => this.graph.getElementById(edgeId(fact)).empty());
    this.graph.batch(() => {
      for (const fact of edges) {
        this.node({ id: fact.head, name: fact.head_name }, around);
        this.node({ id: fact.tail, name: fact.tail_name }, around);
        this.edge(fact, fact.is_added ? "added" : "");
      }
      this.at(around).addClass("expanded");
    });
    if (edges.length > 0) this.arrange();
    return edges.length;
  }

  edge(fact, classes) {
    const { head, relation, tail, relation_name } = fact;
    this.graph.add({
      group: "edges",
      data: { id: edgeId(fact), source: `node ${head}`, target: `node ${tail}`, label: shortened(labelOf(relation, relation_name), EDGE_LABEL) },
      classes,
    });
  }

  /** Dashed edges to the first answers of a question. */
  showAnswers(question, answers) {
    if (!this.graph) return;
    this.graph.remove("edge.answer");
    this.graph.nodes(".answer").forEach((node) => {
      node.removeClass("answer");
      if (node.degree(false) === 0 && node.data("entity") !== this.centre.id) node.remove();
    });
    for (const [place, answer] of answers.entries()) {
      this.node({ id: answer.entity, name: answer.name }, this.centre.id).addClass("answer");
      const ends = question.head === undefined ? [answer.entity, question.tail] : [question.head, answer.entity];
      this.graph.add({
        group: "edges",
        data: {
          id: `answer ${answer.entity}`,
          source: `node ${ends[0]}`,
          target: `node ${ends[1]}`,
          label: `${shortened(question.relationLabel, EDGE_LABEL)}?`,
        },
        classes: place === 0 ? "answer" : "answer later",
      });
    }
    this.arrange();
  }

  /** How much wider than high the picture is, within reason. */
  get stretch() {
    return Math.min(1.5, Math.max(0.8, this.graph.width() / this.graph.height()));
  }

  /** Labels on the side where fewer edges are. */
  turnLabels() {
    this.graph.nodes().forEach((node) => {
      const others = node.neighborhood("node");
      const mean = others.reduce((sum, other) => sum + other.position("y"), 0) / Math.max(1, others.length);
      node.toggleClass("above", node.position("y") < mean - 1);
    });
  }

  /** Give every node its place. */
  arrange() {
    const children = new Map();
    this.graph.nodes().forEach((node) => {
      const { entity, around } = node.data();
      if (around !== null) children.set(around, [...(children.get(around) ?? []), entity]);
    });
    const places = radial(this.centre.id, (id) => children.get(id) ?? [], this.stretch);
    this.graph.nodes().forEach((node) => {
      node.scratch("place", places.get(node.data("entity")));
    });
    this.graph
      .layout({
        name: "preset",
        positions: (node) => node.scratch("place"),
        fit: false,
        animate: !isStill() && this.isDrawn,
        animationDuration: 300,
        stop: () => {
          if (!this.graph) return;
          this.turnLabels();
          this.fit();
        },
      })
      .run();
    this.isDrawn = true;
  }

  /** Show all of it, with labels that can be read. */
  fit() {
    if (!this.graph) return;
    this.graph.fit(undefined, 30);
    const scale = Math.max(1, Math.min(2, READABLE / this.graph.zoom()));
    if (Math.abs(scale - this.scale) > 0.05) {
      this.scale = scale;
      this.restyle();
      this.graph.fit(undefined, 30);
    }
    if (this.graph.zoom() > 1.15) {
      this.graph.zoom(1.15);
      this.graph.center();
    }
  }

  zoom(factor) {
    if (!this.graph) return;
    this.graph.zoom({
      level: this.graph.zoom() * factor,
      renderedPosition: { x: this.graph.width() / 2, y: this.graph.height() / 2 },
    });
  }

  select(node) {
    this.graph.nodes().removeClass("selected");
    this.selected = node;
    if (!node) return this.tellHowTo();
    node.addClass("selected");
    const id = node.data("entity");
    const isCentre = id === this.centre.id;
    this.about.replaceChildren(
      el("span", { class: "picture-name" }, ...named(id, node.data("name"))),
      el(
        "span",
        { class: "picture-actions" },
        !node.hasClass("expanded") &&
          el("button", { type: "button", class: "quiet", on: { click: () => this.expand(id) } }, "Expand"),
        !isCentre && el("a", { class: "quiet", href: entityAddress(id) }, "Open"),
      ),
    );
    return undefined;
  }

  tellHowTo() {
    const drawn = this.graph ? this.at(this.centre.id).connectedEdges().not(".answer").length : 0;
    const part = drawn && drawn < this.total ? `${count(drawn)} of ${counted(this.total, "fact")} drawn. ` : "";
    this.about.replaceChildren(el("span", { class: "muted" }, `${part}Select an entity to see its neighbours, too.`));
  }

  /** Add the neighbours of a node that is in the picture. */
  async expand(id) {
    if (!this.graph) return;
    const node = this.at(id);
    if (node.empty() || node.hasClass("expanded")) return;
    node.addClass("expanded");
    const label = node.data("label");
    try {
      const { items, total } = await this.fetchFacts(id, EXPANDED);
      if (!this.graph) return;
      const number = this.add(id, items);
      const rest = total > items.length ? ` of ${total}` : "";
      announce(`${counted(number, "fact")}${rest} of ${label} added to the picture`);
      this.select(node);
    } catch (problem) {
      node.removeClass("expanded");
      this.about.replaceChildren(el("span", { class: "is-wrong" }, problem.message));
    }
  }

  pressed(event) {
    if (!this.graph || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowRight: () => this.go(1, 0),
      ArrowLeft: () => this.go(-1, 0),
      ArrowDown: () => this.go(0, 1),
      ArrowUp: () => this.go(0, -1),
      Enter: () => this.selected && this.expand(this.selected.data("entity")),
      o: () => this.selected && this.onOpen(this.selected.data("entity")),
      "+": () => this.zoom(1.3),
      "-": () => this.zoom(1 / 1.3),
      0: () => this.fit(),
      Escape: () => this.select(null),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** The nearest node in a direction becomes the selected one. */
  go(right, down) {
    if (!this.selected || this.selected.removed()) return this.arrive(this.at(this.centre.id));
    const from = this.selected.position();
    let best = null;
    let least = Infinity;
    this.graph.nodes().forEach((node) => {
      const [x, y] = [node.position("x") - from.x, node.position("y") - from.y];
      const ahead = x * right + y * down;
      const aside = Math.abs(x * down) + Math.abs(y * right);
      if (ahead <= 1 || aside > ahead * 2) return;
      const far = ahead + aside * 2;
      if (far < least) [best, least] = [node, far];
    });
    return best && this.arrive(best);
  }

  arrive(node) {
    this.select(node);
    this.graph.animate({ center: { eles: node }, duration: isStill() ? 0 : 150 });
    const ties = node.connectedEdges().map((edge) => {
      const other = edge.source().same(node) ? edge.target() : edge.source();
      return edge.source().same(node)
        ? `${edge.data("label")} ${other.data("label")}`
        : `${other.data("label")} ${edge.data("label")} it`;
    });
    announce(`${node.data("label")}: ${ties.slice(0, 4).join(", ")}${ties.length > 4 ? " and more" : ""}`);
  }
}

function edgeId({ head, relation, tail }) {
  return `edge ${JSON.stringify([head, relation, tail])}`;
}
