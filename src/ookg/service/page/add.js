// A newcomer and its facts, from an empty form.

import { api } from "./api.js";
import { Combobox } from "./combobox.js";
import { el, failure, icon, toast } from "./dom.js";
import { counted, entityAddress } from "./words.js";

const ROWS = 3;

/** One fact of the newcomer: which way it points, its relation and the other end. */
class Row {
  constructor({ onChange, onRemove }) {
    this.end = "head";
    this.relation = new Combobox({ label: "Relation", kind: "relation", takesNew: true, placeholder: "Relation", onChange });
    this.other = new Combobox({ label: "Entity", takesNew: true, placeholder: "Entity", onChange });
    this.swap = el("button", { type: "button", class: "icon-button", on: { click: () => this.turn(onChange) } }, icon("swap"));
    this.me = el("span", { class: "row-me" });
    this.element = el("li", { class: "row" });
    this.removal = el(
      "button",
      { type: "button", class: "icon-button", "aria-label": "Remove this fact", title: "Remove this fact", on: { click: () => onRemove(this) } },
      icon("close"),
    );
    this.arrange();
  }

  arrange() {
    const isHead = this.end === "head";
    const words = isHead ? "Turn around: the other entity points to the newcomer" : "Turn around: the newcomer points to the other entity";
    this.swap.setAttribute("aria-label", words);
    this.swap.title = words;
    const order = isHead ? [this.me, this.relation.element, this.other.element] : [this.other.element, this.relation.element, this.me];
    this.element.classList.toggle("is-turned", !isHead);
    this.element.replaceChildren(...order, this.swap, this.removal);
  }

  turn(onChange) {
    this.end = this.end === "head" ? "tail" : "head";
    this.arrange();
    this.swap.focus();
    onChange();
  }

  call(name) {
    this.me.textContent = name || "newcomer";
    this.me.classList.toggle("is-blank", !name);
  }

  get isEmpty() {
    return !this.relation.text && !this.other.text;
  }

  async triple(me) {
    const [relation, other] = await Promise.all([this.relation.resolve(), this.other.resolve()]);
    if (relation === null || other === null) return null;
    return this.end === "head" ? [me, relation, other] : [other, relation, me];
  }
}

export class AddView {
  constructor({ query, app }) {
    this.app = app;
    this.title = "Add";
    this.rows = [];
    this.key = null;
    this.newcomer = new Combobox({
      label: "Name",
      takesNew: true,
      placeholder: "For example TENET",
      hint: "An entity that the graph has already gets further facts.",
      onChange: () => this.changed(),
    });
    this.list = el("ol", { class: "rows" });
    this.result = el("div", {});
    this.submit = el("button", { type: "submit", class: "button button-main" }, "Add to the graph");
    this.form = el(
      "form",
      { class: "card add-form", novalidate: true, on: { submit: (event) => this.submitted(event) } },
      el("fieldset", {}, el("legend", {}, "Newcomer"), this.newcomer.element),
      el(
        "fieldset",
        {},
        el("legend", {}, "What is known of it"),
        this.list,
        el("button", { type: "button", class: "button", on: { click: () => this.addRow(true) } }, icon("plus"), "Another fact"),
      ),
      this.result,
      el("div", { class: "form-end" }, this.submit),
    );
    this.element = el(
      "div",
      { class: "view narrow" },
      el("h1", {}, "Add a newcomer"),
      el(
        "p",
        { class: "lead" },
        "Say what ties it to the graph. It has a vector at once, and questions about it are answered; known vectors stay as they are.",
      ),
      app.canWrite ? this.form : el("p", { class: "notice" }, "This server is read-only: nothing can be added here."),
    );
    for (let number = 0; number < ROWS; number += 1) this.addRow(false);
    if (query.head) this.prefill(query.head);
  }

  load() {
    const first = this.newcomer.text ? this.rows[0].relation.input : this.newcomer.input;
    if (this.app.canWrite) first.focus({ preventScroll: true });
  }

  destroy() {}

  async prefill(id) {
    this.newcomer.fill(id);
    this.changed();
    try {
      await this.newcomer.resolve();
      this.changed();
    } catch {
      // It is looked up again when the form is sent.
    }
  }

  addRow(isFocused) {
    const row = new Row({ onChange: () => this.changed(), onRemove: (gone) => this.dropRow(gone) });
    this.rows.push(row);
    this.list.append(row.element);
    row.call(this.newcomer.text);
    if (isFocused) row.relation.input.focus();
  }

  dropRow(row) {
    const place = this.rows.indexOf(row);
    this.rows.splice(place, 1);
    row.element.remove();
    if (this.rows.length === 0) this.addRow(false);
    this.rows[Math.min(place, this.rows.length - 1)].relation.input.focus();
    this.changed();
  }

  changed() {
    // Another content needs another key; the same content sent twice counts once.
    this.key = null;
    for (const row of this.rows) row.call(this.newcomer.text);
  }

  refuse(words, field) {
    this.result.replaceChildren(el("div", { class: "notice notice-error", role: "alert" }, words));
    field?.focus();
  }

  async submitted(event) {
    event.preventDefault();
    this.result.replaceChildren();
    this.submit.disabled = true;
    try {
      await this.send();
    } catch (problem) {
      this.result.replaceChildren(failure(problem));
    } finally {
      this.submit.disabled = false;
    }
  }

  async send() {
    const me = await this.newcomer.resolve();
    if (me === null) return this.refuse("Give the newcomer a name.", this.newcomer.input);
    const filled = this.rows.filter((row) => !row.isEmpty);
    if (filled.length === 0) return this.refuse("Give at least one fact that ties it to the graph.", this.rows[0].relation.input);
    const triples = await Promise.all(filled.map((row) => row.triple(me)));
    if (triples.includes(null)) {
      const wrong = filled[triples.indexOf(null)];
      const field = wrong.relation.note.classList.contains("is-wrong") ? wrong.relation : wrong.other;
      return this.refuse("A fact needs both a relation and an entity.", field.input);
    }
    this.key ??= `page-${crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`}`;
    const added = await api.addTriples(triples, this.key);
    this.app.changed();
    const known = added.known_before ? `, ${counted(added.known_before, "fact")} known before` : "";
    toast(`${counted(added.added, "fact")} added${known}.`, added.added ? this.app.undoing(added.journal) : null);
    location.hash = entityAddress(me);
    return undefined;
  }
}
