// The frame: which view the address asks for, the search field, colours, keys, and what all views share.

import { AddView } from "./add.js";
import { api, whenKeyIsNeeded } from "./api.js";
import { ChangesView, progressOf } from "./changes.js";
import { CheckView } from "./check.js";
import { Combobox } from "./combobox.js";
import { announce, el, icon, toast } from "./dom.js";
import { EntityView } from "./entity.js";
import { ExploreView, ResultsView } from "./explore.js";
import { count, entityAddress, percent } from "./words.js";

const FOLLOW_MS = 500;
const RETRY_MS = 3000;
const THEMES = ["auto", "light", "dark"];

const VIEWS = {
  "": { view: ExploreView, tab: "explore" },
  entity: { view: EntityView, tab: "explore" },
  search: { view: ResultsView, tab: "explore" },
  add: { view: AddView, tab: "add" },
  check: { view: CheckView, tab: "check" },
  changes: { view: ChangesView, tab: "changes" },
};

/** "#/entity/A%2FB?ask=r" -> {name: "entity", id: "A/B", query: {ask: "r"}} */
function parsed(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  let id;
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    id = rest.join("/");
  }
  return { name, id, query: Object.fromEntries(new URLSearchParams(query)) };
}

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.events = new EventTarget();
    this.status = null;
    this.statusProblem = null;
    this.update = null;
    this.current = null;
    this.isReadOnly = false;
  }

  get canWrite() {
    return !this.isReadOnly;
  }

  async start() {
    whenKeyIsNeeded(askForKey);
    this.startSearch();
    this.startTheme();
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => this.pressed(event));
    document.querySelector(".skip").addEventListener("click", (event) => {
      // The hash is the address of a view, so the link must not change it.
      event.preventDefault();
      this.main.focus();
    });
    await this.refreshStatus();
    this.show({ isFirst: true });
    this.watchUpdate();
  }

  startSearch() {
    this.search = new Combobox({
      label: "Search entities",
      isLabelSeen: false,
      placeholder: "Search entities",
      onChoose: ({ id }) => {
        this.search.clear();
        location.hash = entityAddress(id);
      },
    });
    const form = el("form", { role: "search", class: "search" }, icon("search"), this.search.element, el("kbd", { "aria-hidden": "true" }, "/"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.search.text;
      if (!text) return;
      this.search.clear();
      location.hash = `#/search?${new URLSearchParams({ q: text })}`;
    });
    document.getElementById("search").append(form);
  }

  pressed(event) {
    const isTyping = event.target.closest("input, select, textarea, [role=application]");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.search.input.focus();
    }
  }

  startTheme() {
    const button = document.getElementById("theme");
    const apply = (theme) => {
      if (theme === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = theme;
      button.replaceChildren(icon(theme));
      button.setAttribute("aria-label", `Colours: ${theme}. Change`);
      button.title = `Colours: ${theme}`;
      document.dispatchEvent(new Event("themechange"));
    };
    let theme = document.documentElement.dataset.theme ?? "auto";
    apply(theme);
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      apply(theme);
      announce(`Colours: ${theme}`);
      try {
        localStorage.setItem("ookg-theme", theme);
      } catch {
        // Then the choice lasts until the page is left.
      }
    });
  }

  async refreshStatus() {
    try {
      this.status = await api.status();
      this.statusProblem = null;
      this.isReadOnly = Boolean(this.status.read_only);
      for (const link of document.querySelectorAll("[data-writes]")) link.hidden = this.isReadOnly;
    } catch (problem) {
      this.statusProblem = problem;
    }
    this.events.dispatchEvent(new Event("status"));
  }

  /** Show what the address asks for. */
  show({ isFirst = false } = {}) {
    const { name, id, query } = parsed(location.hash);
    const { view, tab } = VIEWS[name] ?? VIEWS[""];
    this.current?.destroy();
    this.current = new view({ id, query, app: this });
    for (const link of document.querySelectorAll("[data-tab]")) {
      if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.main.replaceChildren(this.current.element);
    this.retitle(this.current);
    if (!isFirst) {
      // Others may have added something meanwhile, or started an update.
      this.refreshStatus();
      if (this.update?.state !== "running") this.watchUpdate();
      scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
      announce(this.current.title || "Explore");
    }
    this.current.load();
  }

  reload() {
    this.show();
  }

  retitle(view) {
    if (view === this.current) document.title = view.title ? `${view.title} · ookg` : "ookg";
  }

  /** Keep what a view shows in the address; Back then goes to what was shown before. */
  remember(view, query) {
    if (view !== this.current) return;
    const path = location.hash.split("?")[0] || "#/";
    const address = `${path}?${new URLSearchParams(query)}`;
    if (address === location.hash) return;
    const isFirstQuestion = !location.hash.includes("?");
    history[isFirstQuestion ? "replaceState" : "pushState"](null, "", address);
  }

  /** Something was added or removed. */
  changed() {
    this.events.dispatchEvent(new Event("changed"));
    this.refreshStatus();
  }

  /** The action of a message: take a batch back. */
  undoing(number, label = "Undo") {
    return {
      label,
      run: async () => {
        try {
          await api.undo(number);
          this.changed();
          toast(`Batch ${count(number)} undone.`);
          if (this.current instanceof EntityView) this.reload();
        } catch (problem) {
          toast(problem.message);
        }
      },
    };
  }

  async watchUpdate() {
    try {
      this.followUpdate(await api.update());
    } catch {
      // Updates are then shown as soon as one is started here.
    }
  }

  /** Show the progress of an update wherever one is, until it ends. */
  followUpdate(update) {
    const wasRunning = this.update?.state === "running";
    this.update = update;
    clearTimeout(this.timer);
    const pill = document.getElementById("updating");
    const isRunning = update.state === "running";
    pill.hidden = !isRunning;
    if (isRunning) {
      const share = progressOf(update);
      pill.textContent = share === null ? "Updating" : `Updating ${percent(share)}`;
      this.timer = setTimeout(() => this.askHowFar(), FOLLOW_MS);
    } else if (wasRunning) {
      if (update.state === "done") {
        const isStale = this.current instanceof EntityView;
        const words = `Version ${count(update.version)} is the model now.`;
        toast(words, isStale ? { label: "Show", run: () => this.reload() } : null);
      }
      if (update.state === "stopped") toast("The update was stopped; the next one goes on from there.");
      if (update.state === "failed") toast(update.error ?? "The update failed.");
      this.changed();
    }
    this.events.dispatchEvent(new Event("update"));
  }

  async askHowFar() {
    try {
      this.followUpdate(await api.update());
    } catch {
      this.timer = setTimeout(() => this.askHowFar(), RETRY_MS);
    }
  }
}

/** A dialog that asks for a key; its text, or null. */
function askForKey(detail) {
  return new Promise((resolve) => {
    const input = el("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true });
    const dialog = el(
      "dialog",
      { class: "card key-dialog", "aria-labelledby": "key-title" },
      el(
        "form",
        { method: "dialog" },
        el("h2", { id: "key-title" }, "This graph needs a key"),
        el("p", { class: "muted" }, detail),
        el("div", { class: "field" }, el("label", { for: "key" }, "Key"), input),
        el("p", { class: "field-note" }, "It is kept until this tab is closed."),
        el(
          "div",
          { class: "form-end" },
          el("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Cancel"),
          el("button", { type: "submit", class: "button button-main" }, "Use this key"),
        ),
      ),
    );
    let key = null;
    dialog.querySelector("form").addEventListener("submit", () => {
      key = input.value.trim();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(key || null);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}

new App().start();
