// A claim and its verdict.

import { api } from "./api.js";
import { Combobox } from "./combobox.js";
import { announce, el, failure, icon, loading } from "./dom.js";
import { entityLink, labelOf, percent, score } from "./words.js";

export class CheckView {
  constructor({ query, app }) {
    this.app = app;
    this.title = "Check a claim";
    this.query = query;
    this.fields = {
      head: new Combobox({ label: "Head", placeholder: "Inception" }),
      relation: new Combobox({ label: "Relation", kind: "relation", placeholder: "language" }),
      tail: new Combobox({ label: "Tail", placeholder: "English" }),
    };
    this.result = el("div", { class: "verdict-place" });
    const { head, relation, tail } = this.fields;
    this.element = el(
      "div",
      { class: "view narrow" },
      el("h1", {}, "Check a claim"),
      el("p", { class: "lead" }, "Is a fact likely to be true, by what the graph knows?"),
      el(
        "form",
        { class: "card check-form", novalidate: true, on: { submit: (event) => this.submitted(event) } },
        el("div", { class: "claim" }, head.element, relation.element, tail.element),
        el("div", { class: "form-end" }, el("button", { type: "submit", class: "button button-main" }, "Check")),
        this.result,
      ),
    );
    for (const [part, field] of Object.entries(this.fields)) if (query[part]) field.fill(query[part]);
  }

  load() {
    const empty = Object.values(this.fields).find((field) => !field.text);
    if (!empty) {
      this.check();
      return;
    }
    for (const field of Object.values(this.fields)) if (field.text) field.resolve().catch(() => {});
    empty.input.focus({ preventScroll: true });
  }

  destroy() {}

  async submitted(event) {
    event.preventDefault();
    await this.check();
  }

  async check() {
    try {
      const fields = Object.values(this.fields);
      const claim = await Promise.all(fields.map((field) => field.resolve()));
      if (claim.includes(null)) {
        this.result.replaceChildren();
        fields[claim.indexOf(null)].input.focus();
        return;
      }
      this.result.replaceChildren(loading("Checking"));
      const [head, relation, tail] = claim;
      this.app.remember(this, { head, relation, tail });
      const { verdicts, notes } = await api.classify([claim]);
      this.show(verdicts[0], notes ?? []);
    } catch (problem) {
      this.result.replaceChildren(failure(problem, () => this.check()));
    }
  }

  show(verdict, notes) {
    const kind = verdict.is_true === null || verdict.is_true === undefined ? "unknown" : verdict.is_true ? "true" : "false";
    const [word, mark] = { true: ["Likely true", "check"], false: ["Likely false", "close"], unknown: ["No verdict", "question"] }[kind];
    const { head, relation, tail } = this.fields;
    const figures = [["score", score(verdict.score)]];
    if (verdict.threshold !== null && verdict.threshold !== undefined) figures.push(["needed", score(verdict.threshold)]);
    if (verdict.probability !== null && verdict.probability !== undefined) {
      figures.push(["probability", percent(verdict.probability)]);
    }
    const why = {
      true: "Its score is at or above what true facts of this relation need.",
      false: "Its score is below what true facts of this relation need.",
      unknown: "Nothing says which score true facts of this relation need.",
    }[kind];
    announce(`${word}. ${why}`);
    this.result.replaceChildren(
      el(
        "div",
        { class: `verdict verdict-${kind}` },
        el("span", { class: "verdict-mark" }, icon(mark)),
        el(
          "div",
          {},
          el("p", { class: "verdict-word" }, word),
          el(
            "p",
            {},
            entityLink(verdict.head, nameIn(head)),
            " ",
            el("span", { class: "relation" }, labelOf(verdict.relation, nameIn(relation))),
            " ",
            entityLink(verdict.tail, nameIn(tail)),
          ),
          el("p", { class: "muted" }, why),
        ),
        el(
          "dl",
          { class: "figures" },
          figures.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
        ),
      ),
      ...notes.map((note) => el("p", { class: "note" }, note)),
    );
  }
}

function nameIn(field) {
  return field.chosen?.name ?? null;
}
