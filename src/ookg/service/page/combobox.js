// A text field that completes names of entities or relations: the combobox pattern of ARIA 1.2.

import { api } from "./api.js";
import { el, uniqueId } from "./dom.js";
import { counted, labelOf, tag } from "./words.js";

const PAUSE_MS = 120;
const NOUN = { entity: ["entity", "entities"], relation: ["relation", "relations"] };

/** The text with what was typed marked in it. */
function marked(text, typed) {
  const place = typed ? text.toLowerCase().indexOf(typed.toLowerCase()) : -1;
  if (place < 0) return [text];
  const end = place + typed.length;
  return [text.slice(0, place), el("mark", {}, text.slice(place, end)), text.slice(end)];
}

export class Combobox {
  /**
   * label: what the field is for; it can be unseen
   * kind: "entity" or "relation"
   * takesNew: whether a label that the graph does not have is an answer too
   * onChoose: called with {id, name} when a suggestion is taken
   * onChange: called whenever the text changes
   */
  constructor({ label, kind = "entity", isLabelSeen = true, placeholder = "", takesNew = false, hint = "", onChoose, onChange }) {
    this.kind = kind;
    this.takesNew = takesNew;
    this.onChoose = onChoose ?? (() => {});
    this.onChange = onChange ?? (() => {});
    this.chosen = null;
    this.results = [];
    this.active = -1;
    this.pending = null;
    this.timer = null;

    const id = uniqueId("combobox");
    this.list = el("ul", { id: `${id}-list`, role: "listbox", class: "options", "aria-label": label, hidden: true });
    this.count = el("span", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.note = el("p", { class: "field-note", id: `${id}-note` }, hint);
    this.hint = hint;
    this.input = el("input", {
      id,
      type: "text",
      role: "combobox",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      placeholder,
      "aria-expanded": "false",
      "aria-controls": `${id}-list`,
      "aria-autocomplete": "list",
      "aria-describedby": `${id}-note`,
    });
    this.element = el(
      "div",
      { class: "field" },
      el("label", { for: id, class: isLabelSeen ? null : "visually-hidden" }, label),
      el("div", { class: "combobox" }, this.input, this.list),
      this.note,
      this.count,
    );
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.input.addEventListener("blur", () => this.left());
    // The field keeps the focus while a suggestion is clicked, so that it does not close before the click arrives.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.choose(this.results[Number(option.dataset.place)]);
    });
  }

  get text() {
    return this.input.value.trim();
  }

  /** Fill the field with something that is known. */
  set(id, name = null) {
    this.chosen = { id, name };
    this.input.value = labelOf(id, name);
    this.say(name && name !== id ? id : this.hint);
    this.input.removeAttribute("aria-invalid");
  }

  /** Fill the field with an id of which nothing else is known; `resolve` looks its name up. */
  fill(id) {
    this.chosen = null;
    this.input.value = id;
  }

  clear() {
    this.chosen = null;
    this.input.value = "";
    this.say(this.hint);
    this.close();
  }

  say(words, isWrong = false) {
    this.note.textContent = words;
    this.note.classList.toggle("is-wrong", isWrong);
    this.input.toggleAttribute("aria-invalid", isWrong);
    if (isWrong) this.input.setAttribute("aria-invalid", "true");
  }

  typed() {
    this.chosen = null;
    this.say(this.hint);
    this.onChange();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.suggest(), PAUSE_MS);
  }

  async suggest() {
    const typed = this.text;
    this.pending?.abort();
    if (!typed && this.kind === "entity") return this.close();
    const request = new AbortController();
    this.pending = request;
    try {
      const { results } = await api.search(typed, { kind: this.kind, signal: request.signal });
      if (document.activeElement === this.input) this.show(results.map((result) => this.option(result)), typed);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.close();
      this.say(error.message, true);
    }
  }

  option(result) {
    return { id: result[this.kind], name: result.name, description: result.description, isNew: result.is_new };
  }

  show(results, typed) {
    this.results = results;
    this.active = -1;
    this.input.removeAttribute("aria-activedescendant");
    this.list.replaceChildren(
      ...results.map((result, place) =>
        el(
          "li",
          { role: "option", id: `${this.list.id}-${place}`, "data-place": place, "aria-selected": "false" },
          el("span", {}, marked(labelOf(result.id, result.name), typed)),
          result.name && result.name !== result.id && [" ", el("code", { class: "id" }, marked(result.id, typed))],
          result.isNew && [" ", tag("new", "tag-new")],
          result.description && [" ", el("span", { class: "option-about" }, result.description)],
        ),
      ),
    );
    const isOpen = results.length > 0;
    this.list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", String(isOpen));
    this.count.textContent = counted(results.length, "suggestion");
  }

  close() {
    this.pending?.abort();
    clearTimeout(this.timer);
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.count.textContent = "";
  }

  get isOpen() {
    return !this.list.hidden;
  }

  move(step) {
    const size = this.results.length;
    this.active = this.active < 0 && step < 0 ? size - 1 : (this.active + step + size) % size;
    [...this.list.children].forEach((option, place) => {
      option.setAttribute("aria-selected", String(place === this.active));
    });
    const option = this.list.children[this.active];
    this.input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  pressed(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.isOpen) this.move(event.key === "ArrowDown" ? 1 : -1);
      else this.suggest();
    } else if (event.key === "Enter" && this.isOpen && this.active >= 0) {
      event.preventDefault();
      this.choose(this.results[this.active]);
    } else if (event.key === "Escape") {
      if (this.isOpen) {
        event.preventDefault();
        event.stopPropagation();
        this.close();
      } else if (this.input.value) {
        this.input.value = "";
        this.typed();
      }
    }
  }

  choose(result) {
    this.set(result.id, result.name);
    this.close();
    this.onChange();
    this.onChoose(result);
  }

  left() {
    this.close();
    if (this.text && !this.chosen) this.resolve().catch(() => {});
  }

  /** Those in the graph that bear exactly this name or id; an id counts before names. */
  async bearers(text) {
    const { results } = await api.search(text, { kind: this.kind, limit: 20 });
    const options = results.map((result) => this.option(result));
    const sameId = options.filter((option) => option.id === text);
    return sameId.length ? sameId : options.filter((option) => option.name === text);
  }

  /** The id that the field stands for, or null with the reason beside it. */
  async resolve() {
    if (this.chosen) return this.chosen.id;
    const text = this.text;
    const [one, many] = NOUN[this.kind];
    if (!text) {
      this.say(`Choose ${one === "entity" ? "an" : "a"} ${one}.`, true);
      return null;
    }
    const bearers = await this.bearers(text);
    if (this.text !== text) return null;
    if (bearers.length === 1) {
      this.set(bearers[0].id, bearers[0].name);
      return bearers[0].id;
    }
    if (bearers.length > 1) {
      this.say(`Several ${many} have this name: choose one from the list.`, true);
      return null;
    }
    if (this.takesNew) {
      this.say(`New to the graph: it will be added as a new ${one}.`);
      return text;
    }
    this.say(`The graph has no ${one} “${text}”.`, true);
    return null;
  }
}
