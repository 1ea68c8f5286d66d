// A question about an entity, and its answers with scores, trust and reasons.

import { api } from "./api.js";
import { Combobox } from "./combobox.js";
import { announce, el, failure, icon, loading, unseen } from "./dom.js";
import { count, counted, entityLink, labelOf, percent, score, shortened, tag, trustBlock } from "./words.js";

const CHIPS = 12;
const CHIP_LABEL = 32;
const SHOWN = 10;
const MORE = 50;
const TOLD = 3;

export class Ask {
  /**
   * entity: {id, name, trust} that is asked about
   * facts: some that are known of it; where there are many relations, theirs are offered
   * onAsked: called with {relation, end}, so that the address can keep the question
   * onAnswers: called with the question and its answers
   */
  constructor({ entity, facts, onAsked, onAnswers }) {
    this.entity = entity;
    this.facts = facts;
    this.onAsked = onAsked;
    this.onAnswers = onAnswers;
    this.end = "head";
    this.asked = 0;

    this.relation = new Combobox({
      label: "Relation",
      kind: "relation",
      isLabelSeen: false,
      placeholder: "Which relation?",
      onChoose: () => this.ask(),
    });
    this.blank = el("span", { class: "question-blank", "aria-hidden": "true" }, "?");
    this.subject = el("span", { class: "question-entity" }, labelOf(entity.id, entity.name));
    this.swap = el(
      "button",
      { type: "button", class: "icon-button", on: { click: () => this.turn() } },
      icon("swap"),
    );
    this.line = el("div", { class: "question" });
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Ask for" });
    this.hideKnown = el("input", { type: "checkbox", id: "hide-known" });
    this.alone = el("input", { type: "checkbox", id: "alone" });
    this.results = el(
      "div",
      { class: "answers" },
      el("p", { class: "empty" }, "Choose a relation: the likely answers come with scores, trust and reasons."),
      entity.trust && trustBlock(entity.trust),
    );
    this.form = el(
      "form",
      { class: "ask-form", on: { submit: (event) => this.submitted(event) } },
      this.line,
      this.chips,
      el(
        "div",
        { class: "form-end" },
        el("label", { class: "check", for: "hide-known" }, this.hideKnown, "Only what is missing"),
        el(
          "label",
          { class: "check", for: "alone", title: "Leaves out what links, paths, company and likeness say beside the vectors" },
          this.alone,
          "By the vector alone",
        ),
        el("button", { type: "submit", class: "button button-main" }, "Ask"),
      ),
    );
    this.element = el(
      "section",
      { class: "card ask", "aria-labelledby": "ask-title" },
      el("h2", { id: "ask-title" }, "What is missing?"),
      this.form,
      this.results,
    );
    this.arrange();
    this.offer();
  }

  arrange() {
    const isHead = this.end === "head";
    const [first, last] = isHead ? [this.subject, this.blank] : [this.blank, this.subject];
    this.line.classList.toggle("is-turned", !isHead);
    this.line.replaceChildren(first, this.relation.element, last, this.swap);
    const other = isHead ? "Ask for what points to it" : "Ask for what it points to";
    this.swap.setAttribute("aria-label", other);
    this.swap.title = other;
  }

  turn() {
    this.end = this.end === "head" ? "tail" : "head";
    this.arrange();
    this.swap.focus();
    announce(this.end === "head" ? "Asking for what it points to" : "Asking for what points to it");
  }

  /** A relation in one click: all of them where they are few, else those that the entity has. */
  async offer() {
    try {
      const { results, next } = await api.search("", { kind: "relation", limit: CHIPS });
      const all = results.map(({ relation, name }) => ({ relation, name, end: null }));
      this.chips.replaceChildren(...(next === null ? all : this.own()).map((offered) => this.chip(offered)));
    } catch {
      this.chips.hidden = true;
    }
  }

  /** The relations of its facts, each with the side on which it stands. */
  own() {
    const relations = new Map();
    for (const { head, relation, relation_name: name } of this.facts) {
      const end = head === this.entity.id ? "head" : "tail";
      relations.set(JSON.stringify([relation, end]), { relation, name, end });
    }
    return [...relations.values()].slice(0, CHIPS);
  }

  chip({ relation, name, end }) {
    const label = labelOf(relation, name);
    const choose = () => {
      if (end !== null && end !== this.end) {
        this.end = end;
        this.arrange();
      }
      this.relation.set(relation, name);
      this.ask();
    };
    const isCut = [...label].length > CHIP_LABEL;
    return el(
      "button",
      { type: "button", class: "chip", title: isCut ? label : null, "aria-label": isCut ? label : null, on: { click: choose } },
      shortened(label, CHIP_LABEL),
    );
  }

  submitted(event) {
    event.preventDefault();
    this.ask();
  }

  /** Ask what the address says. */
  restore({ relation, end }) {
    this.end = end === "tail" ? "tail" : "head";
    this.arrange();
    this.relation.fill(relation);
    return this.ask({ isRestored: true });
  }

  async ask({ top = SHOWN, isRestored = false } = {}) {
    const turn = (this.asked += 1);
    let relation;
    try {
      relation = await this.relation.resolve();
      if (relation === null) {
        this.relation.input.focus();
        return;
      }
      const relationLabel = this.relation.text;
      const question = { [this.end]: this.entity.id, relation, top, explain: true };
      question.hide_known = this.hideKnown.checked;
      if (this.alone.checked) question.combine = false;
      this.results.replaceChildren(loading("Asking"));
      if (!isRestored) this.onAsked({ relation, end: this.end });
      const prediction = await api.predict(question);
      if (turn !== this.asked) return;
      this.show(question, relationLabel, prediction);
      this.onAnswers({ ...question, relationLabel }, prediction.answers);
    } catch (problem) {
      if (turn === this.asked) this.results.replaceChildren(failure(problem, () => this.ask({ top })));
    }
  }

  show(question, relationLabel, prediction) {
    const { answers, explanation, trust, notes } = prediction;
    const isHead = question.head !== undefined;
    const me = labelOf(this.entity.id, this.entity.name);
    const title = isHead ? `${me} · ${relationLabel} · ?` : `? · ${relationLabel} · ${me}`;
    announce(
      answers.length
        ? `${counted(answers.length, "answer")}. First: ${labelOf(answers[0].entity, answers[0].name)}`
        : "No answers",
    );
    this.results.replaceChildren(
      ...[
        answers.length > 0 && this.headline(prediction),
        trust && trustBlock(trust),
        answers.length
          ? this.table(title, answers)
          : el("p", { class: "empty" }, "No answers: everything that fits is known already."),
        answers.length === question.top &&
          question.top < MORE &&
          el(
            "button",
            { type: "button", class: "button", on: { click: () => this.ask({ top: MORE }) } },
            `Show ${count(MORE)} answers`,
          ),
        explanation.length > 0 && this.because(me, explanation),
        ...(notes ?? []).map((note) => el("p", { class: "note" }, note)),
      ].filter(Boolean),
    );
  }

  /** The first answer and why, in sentences. */
  headline({ answers, explanation }) {
    const [first] = answers;
    return el(
      "div",
      { class: "headline" },
      el("p", { class: "muted" }, first.is_known ? "Known already" : "Most likely"),
      el("p", { class: "headline-answer" }, entityLink(first.entity, first.name)),
      first.reasons?.length > 0 && el("p", { class: "headline-why" }, `${first.reasons[0]}.`),
      explanation.length > 0 && el("p", { class: "muted" }, `Its vector is made of ${inWords(explanation)}.`),
    );
  }

  table(title, answers) {
    const hasReasons = answers.some((answer) => answer.reasons?.length);
    const scores = answers.map((answer) => answer.score);
    const [least, most] = [Math.min(...scores), Math.max(...scores)];
    // Narrow screens lay the rows out as a grid; the roles say that it is still a table.
    return el(
      "table",
      { role: "table", class: hasReasons ? "answers-table has-reasons" : "answers-table" },
      el("caption", {}, title),
      el(
        "thead",
        { role: "rowgroup" },
        el(
          "tr",
          { role: "row" },
          el("th", { role: "columnheader", scope: "col", class: "rank" }, unseen("Rank"), el("span", { "aria-hidden": "true" }, "#")),
          el("th", { role: "columnheader", scope: "col", class: "answer" }, "Answer"),
          el("th", { role: "columnheader", scope: "col", class: "number" }, "Score"),
          hasReasons && el("th", { role: "columnheader", scope: "col" }, "Why"),
        ),
      ),
      el(
        "tbody",
        { role: "rowgroup" },
        answers.map((answer) => {
          const bar = el("span", { class: "score-bar", "aria-hidden": "true" }, el("span"));
          bar.firstChild.style.width = `${most > least ? 6 + (94 * (answer.score - least)) / (most - least) : 100}%`;
          return el(
            "tr",
            { role: "row" },
            el("td", { role: "cell", class: "rank" }, count(answer.rank)),
            el(
              "th",
              { role: "rowheader", scope: "row" },
              entityLink(answer.entity, answer.name),
              answer.is_known && tag("known", "", "the graph says so already"),
              answer.is_new && tag("new", "tag-new"),
            ),
            el("td", { role: "cell", class: "number" }, score(answer.score), bar),
            hasReasons && el("td", { role: "cell", class: "why" }, this.reasons(answer.reasons ?? [])),
          );
        }),
      ),
    );
  }

  reasons(reasons) {
    if (reasons.length === 0) return el("span", { class: "muted" }, "by its vector alone");
    return el("ul", { class: "reasons" }, reasons.map((reason) => el("li", {}, reason)));
  }

  /** How much each of its own facts has to say. */
  because(me, explanation) {
    return el(
      "details",
      { class: "because" },
      el("summary", {}, `What the vector of ${me} is made of: ${counted(explanation.length, "fact")}`),
      el(
        "ul",
        { class: "weights" },
        explanation.map((reason) => {
          const bar = el("span", { class: "weight-bar", "aria-hidden": "true" }, el("span"));
          bar.firstChild.style.width = `${Math.max(1, reason.weight * 100)}%`;
          const relation = el("span", { class: "relation" }, relationOf(reason));
          const link = entityLink(reason.entity, reason.name);
          return el(
            "li",
            {},
            el("span", {}, reason.direction === "in" ? [link, " ", relation, " it"] : [relation, " ", link]),
            el("span", { class: "weight-share" }, percent(reason.weight)),
            bar,
          );
        }),
      ),
    );
  }
}

const relationOf = ({ relation, relation_name }) => labelOf(relation, relation_name);

/** "genre action (56 %), directed_by Christopher Nolan (31 %), and 4 further facts" */
function inWords(explanation) {
  const told = explanation.slice(0, TOLD).map((reason) => {
    const other = labelOf(reason.entity, reason.name);
    const fact = reason.direction === "in" ? `${other} ${relationOf(reason)} it` : `${relationOf(reason)} ${other}`;
    return `${fact} (${percent(reason.weight)})`;
  });
  const rest = explanation.length - told.length;
  if (rest > 0) told.push(counted(rest, "further fact"));
  return new Intl.ListFormat("en").format(told);
}
