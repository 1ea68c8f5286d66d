// Calls to the service under v1/. Every failure is a Problem with the one line that the service says.

const KEY = "ookg-key";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.name = "Problem";
    this.status = status;
  }
}

let askForKey = () => Promise.resolve(null);
let asking = null;

/** `ask(detail)` gets a key from the person, or null. */
export function whenKeyIsNeeded(ask) {
  askForKey = ask;
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function storeKey(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // Then it is asked for again after the next reload.
  }
}

async function send(path, { method = "GET", query = {}, body = undefined, signal = undefined } = {}) {
  const address = new URL(`v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) address.searchParams.set(name, value);
  }
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const key = storedKey();
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(address, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer. Is it still running?");
  }
}

async function answer(response) {
  let content = null;
  try {
    content = await response.json();
  } catch {
    // Not JSON: a proxy in between, perhaps.
  }
  if (response.ok && content !== null) return content;
  const detail = content && typeof content.detail === "string" ? content.detail : null;
  throw new Problem(response.status, detail ?? `The server answered ${response.status} ${response.statusText}`.trim());
}

/** The content of the answer; throws a Problem. Asks for a key where one is needed, and then tries again. */
export async function call(path, options = {}) {
  for (;;) {
    const response = await send(path, options);
    if (response.status !== 401) return answer(response);
    const refusal = await answer(response).catch((problem) => problem);
    // Calls that are refused at the same time share one question.
    asking ??= askForKey(refusal.message).finally(() => {
      asking = null;
    });
    const key = await asking;
    if (!key) throw refusal;
    storeKey(key);
  }
}

const entityPath = (id) => `entities/${encodeURIComponent(id)}`;

export const api = {
  status: () => call("status"),
  search: (text, { kind = "entity", limit = 8, offset = 0, signal } = {}) =>
    call("search", { query: { q: text, kind, limit, offset }, signal }),
  entity: (id, { limit = 24, offset = 0 } = {}) => call(entityPath(id), { query: { limit, offset } }),
  removeEntity: (id) => call(entityPath(id), { method: "DELETE" }),
  addTriples: (triples, key) => call("triples", { method: "POST", body: { triples, key } }),
  removeTriples: (triples) => call("triples", { method: "DELETE", body: { triples } }),
  predict: (question) => call("predict", { method: "POST", body: question }),
  classify: (claims) => call("classify", { method: "POST", body: { claims } }),
  history: (before = null, limit = 20) => call("history", { query: { before, limit } }),
  batch: (number) => call(`history/${number}`),
  undo: (number) => call(`history/${number}/undo`, { method: "POST" }),
  update: () => call("update"),
  startUpdate: (options) => call("update", { method: "POST", body: options }),
  stopUpdate: () => call("update", { method: "DELETE" }),
};
