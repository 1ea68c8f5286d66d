// Building the page. Text is always a text node: a label can never become markup.

/** An element. Attributes that are null or false are left out; `on` holds listeners; children are nodes or texts. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** One of the symbols of index.html, for the eye only. */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  drawing.append(use);
  return drawing;
}

/** Words for screen readers alone. */
export function unseen(...words) {
  return el("span", { class: "visually-hidden" }, ...words);
}

let lastNumber = 0;

/** An id that no other element has. */
export function uniqueId(prefix) {
  lastNumber += 1;
  return `${prefix}-${lastNumber}`;
}

/** Have a screen reader say it. */
export function announce(words) {
  const region = document.getElementById("announcer");
  region.textContent = "";
  // A region that changes twice within one task is read once, with its last words.
  setTimeout(() => {
    region.textContent = words;
  }, 60);
}

/** A short message at the edge, with an optional action such as undo. */
export function toast(words, action = null) {
  const close = () => message.remove();
  const message = el(
    "div",
    { class: "toast" },
    el("span", {}, words),
    action &&
      el(
        "button",
        {
          type: "button",
          class: "quiet",
          on: {
            click: () => {
              close();
              action.run();
            },
          },
        },
        action.label,
      ),
    el("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", on: { click: close } }, icon("close")),
  );
  const region = document.getElementById("toasts");
  region.replaceChildren(message);
  let timer;
  const leaveSoon = () => {
    timer = setTimeout(close, action ? 15000 : 7000);
  };
  // It stays while it is being read or used.
  message.addEventListener("pointerenter", () => clearTimeout(timer));
  message.addEventListener("focusin", () => clearTimeout(timer));
  message.addEventListener("pointerleave", leaveSoon);
  message.addEventListener("focusout", leaveSoon);
  leaveSoon();
}

/** The failure of a call, as a person should read it. */
export function failure(problem, retry = null) {
  return el(
    "div",
    { class: "notice notice-error", role: "alert" },
    el("p", {}, problem.message),
    retry && el("button", { type: "button", class: "button", on: { click: retry } }, "Try again"),
  );
}

/** Something is on its way. */
export function loading(words = "Loading") {
  return el("p", { class: "loading", role: "status" }, el("span", { class: "spinner", "aria-hidden": "true" }), words);
}
