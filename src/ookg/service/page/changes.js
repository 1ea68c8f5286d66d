// What was added and removed lately, with undo; updates and their progress.

import { api } from "./api.js";
import { el, failure, icon, loading, toast, unseen } from "./dom.js";
import { ago, count, counted, duration, labelOf, tag, tripleLine } from "./words.js";

const SMALL = 50;
const KINDS = { add: "Added", remove: "Removed", undo: "Undone" };

/** How far an update is, between 0 and 1, or null where it does not say. */
export function progressOf({ step, steps, seconds, seconds_left: left }) {
  if (steps) return Math.min(1, step / steps);
  if (left !== null && left !== undefined && seconds + left > 0) return seconds / (seconds + left);
  return null;
}

/** What is new since the version, and the update that lets all vectors learn it. */
export class UpdateCard {
  constructor({ app }) {
    this.app = app;
    this.content = el("div", {}, loading());
    this.element = el(
      "section",
      { class: "card update", "aria-labelledby": "update-title" },
      el("h2", { id: "update-title" }, "Update"),
      this.content,
    );
    this.listener = () => this.show();
    app.events.addEventListener("update", this.listener);
    app.events.addEventListener("status", this.listener);
  }

  destroy() {
    this.app.events.removeEventListener("update", this.listener);
    this.app.events.removeEventListener("status", this.listener);
  }

  show() {
    const { status, update } = this.app;
    if (!status) {
      if (this.app.statusProblem) this.content.replaceChildren(failure(this.app.statusProblem, () => this.app.changed()));
      return;
    }
    const isRunning = update?.state === "running";
    // While it runs only the figures change, so that the focus stays on the button that stops it.
    if (isRunning && this.bar?.isConnected) return this.tick(update);
    this.content.replaceChildren(...(isRunning ? this.running(update) : this.waiting(status, update)));
    if (isRunning) this.tick(update);
    return undefined;
  }

  running() {
    this.bar = el("progress", { max: 1, "aria-label": "Progress of the update" });
    this.figures = el("p", { class: "muted" });
    return [
      el("p", {}, "Vectors are learning what came. Questions are answered meanwhile, and nothing is dropped when the new version takes over."),
      this.bar,
      this.figures,
      this.app.canWrite &&
        el("button", { type: "button", class: "button", on: { click: () => this.stop() } }, "Stop"),
    ].filter(Boolean);
  }

  tick(update) {
    const share = progressOf(update);
    if (share === null) this.bar.removeAttribute("value");
    else this.bar.value = share;
    const left = update.seconds_left;
    const parts = [
      update.steps ? `step ${count(update.step ?? 0)} of ${count(update.steps)}` : "starting",
      left !== null && left !== undefined && update.steps ? `about ${duration(left)} left` : null,
    ];
    this.figures.textContent = parts.filter(Boolean).join(", ");
  }

  waiting(status, update) {
    const changes = status.added + status.removed;
    const came = [
      counted(status.batches, "batch", "batches"),
      `${counted(status.added, "fact")} added`,
      status.removed && `${count(status.removed)} removed`,
      status.new_entities && counted(status.new_entities, "new entity", "new entities"),
      status.new_relations && counted(status.new_relations, "new relation"),
    ].filter(Boolean);
    const cost = status.update;
    this.mode = el(
      "select",
      { id: "update-mode" },
      el("option", { value: "all" }, "All vectors may move"),
      el("option", { value: "freeze" }, "Known vectors stay"),
      el("option", { value: "new-only" }, "Learn from new facts only"),
    );
    this.refusal = el("div", {});
    return [
      el(
        "p",
        {},
        el("strong", {}, `Version ${count(status.version)}`),
        changes === 0 ? " has learned all there is." : ` has not learned yet: ${came.join(", ")}.`,
      ),
      changes > 0 && cost && el("p", { class: "muted" }, `An update takes ${counted(cost.steps, "step")}${cost.seconds ? `, about ${duration(cost.seconds)}` : ""}.`),
      update?.state === "failed" && el("div", { class: "notice notice-error" }, update.error ?? "The last update failed."),
      changes > 0 &&
        this.app.canWrite &&
        el(
          "form",
          { class: "update-form", on: { submit: (event) => this.start(event) } },
          el("div", { class: "field" }, el("label", { for: "update-mode" }, "How"), this.mode),
          el("button", { type: "submit", class: "button" }, "Start update"),
          this.refusal,
        ),
    ].filter(Boolean);
  }

  async start(event) {
    event.preventDefault();
    try {
      this.app.followUpdate(await api.startUpdate({ mode: this.mode.value }));
    } catch (problem) {
      this.refusal.replaceChildren(failure(problem));
    }
  }

  async stop() {
    try {
      this.app.followUpdate(await api.stopUpdate());
    } catch (problem) {
      toast(problem.message);
    }
  }
}

/** Batches, latest first; each can be looked into and undone. */
export class Batches {
  constructor({ app, limit, hasMore = true, open = null }) {
    this.app = app;
    this.limit = limit;
    this.hasMore = hasMore;
    this.open = open;
    this.element = el("div", { class: "batches" }, loading());
    this.listener = () => this.load();
    app.events.addEventListener("changed", this.listener);
  }

  destroy() {
    this.app.events.removeEventListener("changed", this.listener);
  }

  async load() {
    try {
      this.page = await api.history(null, this.limit);
      this.show();
    } catch (problem) {
      this.element.replaceChildren(failure(problem, () => this.load()));
    }
  }

  show() {
    if (this.page.batches.length === 0) {
      this.element.replaceChildren(
        el(
          "p",
          { class: "empty" },
          "Nothing was added yet. ",
          this.app.canWrite && el("a", { href: "#/add" }, "Add the first newcomer"),
        ),
      );
      return;
    }
    this.versions = this.hasMore ? this.page.versions.toSorted((one, other) => other.number - one.number) : [];
    this.list = el("ol", { class: "timeline" }, this.entries());
    this.more = el("div", { class: "more" });
    this.element.replaceChildren(this.list, this.more);
    this.offerMore();
  }

  offerMore() {
    this.more.replaceChildren();
    if (!this.hasMore || this.page.next === null || this.page.next === undefined) return;
    this.more.append(el("button", { type: "button", class: "button", on: { click: () => this.loadMore() } }, "Show older"));
  }

  async loadMore() {
    try {
      this.page = await api.history(this.page.next, this.limit);
      const entries = this.entries();
      this.list.append(...entries);
      this.offerMore();
      entries[0]?.querySelector("summary")?.focus();
    } catch (problem) {
      this.more.replaceChildren(failure(problem, () => this.loadMore()));
    }
  }

  /** The batches of a page; a version stands after the last batch that it has learned, so above it. */
  entries() {
    const isLast = this.page.next === null || this.page.next === undefined;
    const versionsFrom = (number) => {
      const later = this.versions.filter((version) => version.journal >= number);
      this.versions = this.versions.filter((version) => version.journal < number);
      return later.map((version) => this.version(version));
    };
    const entries = this.page.batches.flatMap((batch) => [...versionsFrom(batch.number), this.entry(batch)]);
    return isLast ? [...entries, ...versionsFrom(0)] : entries;
  }

  version({ number, triples, is_current: isCurrent, provenance }) {
    return el(
      "li",
      {},
      el(
        "div",
        { class: "version-entry" },
        el("span", { class: "batch-mark is-version" }, icon("check")),
        el(
          "span",
          { class: "batch-what" },
          el("span", { class: "batch-title" }, `Version ${count(number)}`, isCurrent && tag("the model")),
          el("span", { class: "muted" }, provenance?.created && [ago(provenance.created), " · "], counted(triples, "fact"), " learned"),
        ),
      ),
    );
  }

  entry(batch) {
    const isRemoval = batch.kind === "remove";
    const facts = el("div", { class: "batch-facts" });
    const gist = el("span", {});
    const details = el(
      "details",
      { class: "batch", open: String(batch.number) === this.open },
      el(
        "summary",
        {},
        el("span", { class: `batch-mark ${isRemoval ? "is-removal" : ""}` }, icon(isRemoval ? "minus" : "plus")),
        el(
          "span",
          { class: "batch-what" },
          el("span", { class: "batch-title" }, `${KINDS[batch.kind] ?? batch.kind} ${counted(batch.changed, "fact")}`, gist),
          el(
            "span",
            { class: "muted" },
            ago(batch.time),
            batch.author ? ` by ${batch.author}` : "",
            ` · batch ${count(batch.number)}`,
          ),
        ),
      ),
      facts,
    );
    details.addEventListener("toggle", () => details.open && this.fill(facts, batch.number));
    if (details.open) this.fill(facts, batch.number);
    if (batch.changed > 0 && batch.changed <= SMALL) this.summarise(gist, batch);
    return el(
      "li",
      {},
      details,
      this.app.canWrite &&
        batch.changed > 0 &&
        el(
          "button",
          {
            type: "button",
            class: "button small",
            on: { click: (event) => this.undo(batch, event.currentTarget) },
          },
          icon("undo"),
          "Undo",
          unseen(` batch ${batch.number}`),
        ),
    );
  }

  /** Whom a small batch is about. */
  async summarise(place, { number }) {
    try {
      const { triples } = await api.batch(number);
      const uses = new Map();
      for (const { head, head_name, tail, tail_name } of triples) {
        for (const label of [labelOf(head, head_name), labelOf(tail, tail_name)]) uses.set(label, (uses.get(label) ?? 0) + 1);
      }
      // The entity that most of its facts share; the head where none is shared.
      const [subject] = [...uses].reduce((best, entry) => (entry[1] > best[1] ? entry : best));
      place.textContent = ` about ${subject}`;
    } catch {
      // Its facts can still be asked for by opening it.
    }
  }

  async fill(place, number) {
    if (place.childElementCount) return;
    place.replaceChildren(loading());
    try {
      const { triples } = await api.batch(number);
      place.replaceChildren(el("ul", { class: "plain" }, triples.map((triple) => el("li", {}, tripleLine(triple)))));
    } catch (problem) {
      place.replaceChildren(failure(problem));
    }
  }

  async undo(batch, button) {
    button.disabled = true;
    try {
      const done = await api.undo(batch.number);
      this.app.changed();
      toast(`Batch ${count(batch.number)} undone.`, done.journal ? this.app.undoing(done.journal, "Redo") : null);
    } catch (problem) {
      button.disabled = false;
      toast(problem.message);
    }
  }
}

export class ChangesView {
  constructor({ query, app }) {
    this.title = "Changes";
    this.update = new UpdateCard({ app });
    this.batches = new Batches({ app, limit: 20, open: query.batch ?? null });
    this.element = el(
      "div",
      { class: "view" },
      el("h1", {}, "Changes"),
      el(
        "div",
        { class: "columns" },
        el(
          "section",
          { class: "card", "aria-labelledby": "batches-title" },
          el("h2", { id: "batches-title" }, "Added and removed"),
          this.batches.element,
        ),
        this.update.element,
      ),
    );
  }

  load() {
    this.update.show();
    return this.batches.load();
  }

  destroy() {
    this.update.destroy();
    this.batches.destroy();
  }
}
