// Where to begin: search, what was added lately, and the state of the model. And the results of a search.

import { api } from "./api.js";
import { Batches, UpdateCard } from "./changes.js";
import { el, failure, icon, loading } from "./dom.js";
import { count, entityLink, tag } from "./words.js";

const EXAMPLES = 8;
const RESULTS = 20;

export class ExploreView {
  constructor({ app }) {
    this.app = app;
    this.title = "";
    this.update = new UpdateCard({ app });
    this.batches = new Batches({ app, limit: 5, hasMore: false });
    this.examples = el("ul", { class: "chips plain" });
    this.sizes = el("p", { class: "lead" });
    this.element = el(
      "div",
      { class: "view" },
      el(
        "header",
        { class: "hero" },
        el("h1", {}, "Ask a graph about things it has never seen"),
        this.sizes,
        el(
          "div",
          { class: "actions" },
          app.canWrite && el("a", { class: "button button-main", href: "#/add" }, icon("plus"), "Add a newcomer"),
          el("a", { class: "button", href: "#/check" }, icon("check"), "Check a claim"),
        ),
        this.examples,
      ),
      el(
        "div",
        { class: "columns" },
        el(
          "section",
          { class: "card", "aria-labelledby": "lately-title" },
          el(
            "div",
            { class: "card-head" },
            el("h2", { id: "lately-title" }, "Added lately"),
            el("a", { href: "#/changes" }, "All changes"),
          ),
          this.batches.element,
        ),
        this.update.element,
      ),
    );
    this.listener = () => this.tellSizes();
    app.events.addEventListener("status", this.listener);
    this.tellSizes();
  }

  tellSizes() {
    const { status } = this.app;
    const parts = [
      [status?.entities, "entities"],
      [status?.relations, "relations"],
    ].filter(([number]) => typeof number === "number");
    const size = parts.map(([number, noun]) => `${count(number)} ${noun}`).join(" and ");
    this.sizes.textContent = `${size ? `${size}. ` : ""}Search for one, see what is known of it, and ask what is missing.`;
  }

  async load() {
    this.update.show();
    this.batches.load();
    try {
      const { results } = await api.search("", { limit: EXAMPLES });
      if (results.length === 0) return;
      this.examples.replaceChildren(
        el("li", { class: "muted" }, "Or begin with"),
        ...results.map(({ entity, name }) => el("li", {}, el("span", { class: "chip" }, entityLink(entity, name)))),
      );
    } catch {
      this.examples.hidden = true;
    }
  }

  destroy() {
    this.app.events.removeEventListener("status", this.listener);
    this.update.destroy();
    this.batches.destroy();
  }
}

export class ResultsView {
  constructor({ query, app }) {
    this.app = app;
    this.text = query.q ?? "";
    this.title = `Search: ${this.text}`;
    this.offset = 0;
    this.list = el("ul", { class: "results plain" });
    this.more = el("div", { class: "more" }, loading("Searching"));
    this.element = el("div", { class: "view narrow" }, el("h1", {}, `“${this.text}”`), this.list, this.more);
  }

  async load() {
    try {
      const { results, next } = await api.search(this.text, { limit: RESULTS, offset: this.offset });
      const items = results.map(({ entity, name, description, is_new: isNew }) =>
        el(
          "li",
          {},
          entityLink(entity, name),
          isNew && tag("new", "tag-new"),
          description && el("span", { class: "muted" }, description),
        ),
      );
      const isFirst = this.offset === 0;
      this.list.append(...items);
      this.more.replaceChildren();
      if (isFirst && items.length === 0) this.more.append(this.nothing());
      if (!isFirst) items[0]?.querySelector("a").focus();
      if (next === null || next === undefined) return;
      this.offset = next;
      this.more.append(el("button", { type: "button", class: "button", on: { click: () => this.load() } }, "Show more"));
    } catch (problem) {
      this.more.replaceChildren(failure(problem, () => this.load()));
    }
  }

  nothing() {
    return el(
      "div",
      { class: "notice" },
      el("p", {}, "The graph has nothing by this name."),
      this.app.canWrite &&
        el("a", { class: "button button-main", href: `#/add?head=${encodeURIComponent(this.text)}` }, "Add it as a newcomer"),
    );
  }

  destroy() {}
}
