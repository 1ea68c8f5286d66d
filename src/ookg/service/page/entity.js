// One entity: what is known of it, as a list and a picture, and what can be asked about it.

import { api } from "./api.js";
import { Ask } from "./ask.js";
import { announce, el, failure, icon, loading, toast, unseen } from "./dom.js";
import { Picture } from "./picture.js";
import { ago, count, counted, entityAddress, entityLink, labelOf, tag } from "./words.js";

const PAGE = 16;
const LONG = 5;
const WIDE = 16;
const DRAWN_ANSWERS = 3;

/** Facts by relation and direction, in the order they come. */
function grouped(id, facts) {
  const groups = new Map();
  for (const fact of facts) {
    const isOut = fact.head === id;
    const key = JSON.stringify([fact.relation, isOut]);
    if (!groups.has(key)) groups.set(key, { relation: labelOf(fact.relation, fact.relation_name), isOut, facts: [] });
    groups.get(key).facts.push(fact);
  }
  return [...groups.values()];
}

export class EntityView {
  constructor({ id, query, app }) {
    this.id = id;
    this.app = app;
    this.query = query;
    this.facts = [];
    this.element = el("article", { class: "view entity" }, loading());
    this.title = id;
  }

  async load() {
    try {
      this.entity = await api.entity(this.id, { limit: PAGE });
    } catch (problem) {
      this.element.replaceChildren(
        el("h1", {}, this.id),
        problem.status === 404
          ? this.unknown(problem)
          : failure(problem, () => {
              this.element.replaceChildren(loading());
              this.load();
            }),
      );
      return;
    }
    if (!this.element.isConnected) return;
    const { name, triples } = this.entity;
    this.title = labelOf(this.id, name);
    this.app.retitle(this);
    this.facts = triples.items;
    this.next = triples.next;
    this.total = triples.total;
    this.picture = new Picture({
      centre: { id: this.id, name, isNew: this.entity.is_new },
      fetchFacts: async (id, limit) => (await api.entity(id, { limit })).triples,
      onOpen: (id) => {
        location.hash = entityAddress(id);
      },
    });
    this.ask = new Ask({
      entity: { id: this.id, name, trust: this.entity.trust },
      facts: this.facts,
      onAsked: ({ relation, end }) => this.app.remember(this, { ask: relation, end }),
      onAnswers: (question, answers) =>
        this.picture.showAnswers(question, answers.filter((answer) => !answer.is_known).slice(0, DRAWN_ANSWERS)),
    });
    this.list = el("div", { class: "facts-list" });
    this.more = el("div", { class: "more" });
    this.element.replaceChildren(
      this.header(),
      el(
        "div",
        { class: "entity-columns" },
        this.ask.element,
        el(
          "section",
          { class: "card neighbourhood", "aria-labelledby": "facts-title" },
          el(
            "div",
            { class: "card-head" },
            el("h2", { id: "facts-title" }, "What is known"),
            el("span", { class: "muted" }, counted(this.total, "fact")),
          ),
          this.picture.element,
          this.list,
          this.more,
        ),
      ),
    );
    this.listFacts();
    const drawn = this.picture.draw(this.facts, this.total).catch(() => {
      this.picture.element.replaceWith(el("p", { class: "notice" }, "The picture could not be drawn; the list below has it all."));
    });
    await drawn;
    if (this.query.ask) this.ask.restore({ relation: this.query.ask, end: this.query.end });
  }

  destroy() {
    this.picture?.destroy();
  }

  unknown(problem) {
    return el(
      "div",
      { class: "notice" },
      el("p", {}, problem.message),
      this.app.canWrite &&
        el("a", { class: "button button-main", href: `#/add?head=${encodeURIComponent(this.id)}` }, "Add it as a newcomer"),
    );
  }

  header() {
    const { name, description, is_new: isNew, came } = this.entity;
    const hasName = name && name !== this.id;
    return el(
      "header",
      { class: "entity-head" },
      el(
        "div",
        { class: "entity-title" },
        el("h1", {}, labelOf(this.id, name)),
        hasName && el("code", { class: "id" }, this.id),
        isNew && tag("new", "tag-new", "not in the trained vectors yet"),
      ),
      description && el("p", { class: "lead" }, description),
      came &&
        el(
          "p",
          { class: "muted" },
          "Added ",
          ago(came.time),
          came.author ? ` by ${came.author}` : "",
          ", ",
          el("a", { href: `#/changes?batch=${came.journal}` }, `batch ${count(came.journal)}`),
          ".",
        ),
      el(
        "div",
        { class: "actions" },
        this.app.canWrite &&
          el("a", { class: "button", href: `#/add?head=${encodeURIComponent(this.id)}` }, icon("plus"), "Add facts"),
        el("a", { class: "button", href: `#/check?head=${encodeURIComponent(this.id)}` }, icon("check"), "Check a claim"),
        this.app.canWrite &&
          isNew &&
          el("button", { type: "button", class: "button button-danger", on: { click: () => this.remove() } }, "Remove"),
      ),
    );
  }

  listFacts() {
    if (this.facts.length === 0) {
      this.list.replaceChildren(el("p", { class: "empty" }, "No facts yet. What it is asked about is answered by its vector alone."));
      return;
    }
    this.list.replaceChildren(
      ...grouped(this.id, this.facts).map(({ relation, isOut, facts }) =>
        el(
          "div",
          { class: relation.length > WIDE ? "fact-group is-wide" : "fact-group" },
          el("h3", {}, icon(isOut ? "arrow" : "back"), relation, !isOut && unseen(" of")),
          el(
            "ul",
            { class: facts.length > LONG ? "is-long" : null },
            facts.map((fact) => this.fact(fact, isOut)),
          ),
        ),
      ),
    );
    this.more.replaceChildren();
    if (this.next !== null && this.next !== undefined) {
      this.more.append(
        el(
          "button",
          { type: "button", class: "button", on: { click: () => this.loadMore() } },
          `Show more: ${count(this.facts.length)} of ${count(this.total)}`,
        ),
      );
    }
  }

  fact(fact, isOut) {
    const [id, name] = isOut ? [fact.tail, fact.tail_name] : [fact.head, fact.head_name];
    const label = labelOf(id, name);
    return el(
      "li",
      {},
      entityLink(id, name),
      el(
        "button",
        {
          type: "button",
          class: "icon-button small",
          "aria-label": `Show the neighbours of ${label} in the picture`,
          title: "Show its neighbours in the picture",
          on: { click: () => this.expand(fact, id) },
        },
        icon("expand"),
      ),
      fact.is_added && tag("added", "tag-new"),
      fact.is_added &&
        this.app.canWrite &&
        el(
          "button",
          {
            type: "button",
            class: "icon-button small",
            "aria-label": `Remove: ${labelOf(fact.head, fact.head_name)} ${fact.relation} ${labelOf(fact.tail, fact.tail_name)}`,
            title: "Remove this fact",
            on: { click: () => this.removeFact(fact) },
          },
          icon("close"),
        ),
    );
  }

  /** Show more of a neighbour, which a small picture may not have drawn yet. */
  expand(fact, id) {
    this.picture.add(this.id, [fact]);
    this.picture.element.scrollIntoView({ block: "nearest" });
    this.picture.expand(id);
  }

  async loadMore() {
    try {
      const { triples } = await api.entity(this.id, { limit: PAGE, offset: this.next });
      const before = this.facts.length;
      this.facts.push(...triples.items);
      this.next = triples.next;
      this.listFacts();
      this.picture.add(this.id, triples.items);
      announce(`${counted(this.facts.length - before, "more fact")}`);
      (this.more.querySelector("button") ?? this.list.querySelectorAll("a")[before])?.focus();
    } catch (problem) {
      this.more.replaceChildren(failure(problem, () => this.loadMore()));
    }
  }

  async removeFact({ head, relation, tail }) {
    try {
      const { journal } = await api.removeTriples([[head, relation, tail]]);
      this.app.changed();
      toast("1 fact removed.", this.app.undoing(journal));
      this.app.reload();
    } catch (problem) {
      toast(problem.message);
    }
  }

  async remove() {
    try {
      const { removed, journal } = await api.removeEntity(this.id);
      this.app.changed();
      toast(`${this.title} removed, with ${counted(removed, "fact")}.`, this.app.undoing(journal));
      location.hash = "#/";
    } catch (problem) {
      toast(problem.message);
    }
  }
}
