// Numbers, times and trust as people say them; names with their ids.

import { el, icon, unseen } from "./dom.js";

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

/** "1 triple", "2 triples", "3 entities". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

export function score(number) {
  return number === null || number === undefined ? "–" : number.toFixed(3).replace("-", "−");
}

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

/** A time element: how long ago, with the exact time behind it. */
export function ago(time) {
  const moment = new Date(time);
  if (Number.isNaN(moment.getTime())) return el("span", {}, String(time));
  const seconds = (moment.getTime() - Date.now()) / 1000;
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  const words = unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "just now";
  return el("time", { datetime: moment.toISOString(), title: moment.toLocaleString() }, words);
}

/** What people read for an id: its name where there is one. */
export const labelOf = (id, name) => name || id;

/** A label in so many characters: its middle is left out, as both ends of a long id tell something. */
export function shortened(label, most) {
  const characters = [...label];
  if (characters.length <= most) return label;
  const first = Math.floor((most - 1) / 3);
  return `${characters.slice(0, first).join("")}…${characters.slice(first + 1 - most).join("")}`;
}

/** A name and, where it differs, the id that programs use. */
export function named(id, name) {
  if (!name || name === id) return [el("span", { class: "name" }, id)];
  return [el("span", { class: "name" }, name), " ", el("code", { class: "id" }, id)];
}

export const entityAddress = (id) => `#/entity/${encodeURIComponent(id)}`;

/** A link to an entity, with its id beside its name. */
export function entityLink(id, name) {
  return el("a", { class: "entity-link", href: entityAddress(id) }, ...named(id, name));
}

/** A triple in a line, each entity a link. */
export function tripleLine({ head, relation, tail, head_name, relation_name, tail_name }) {
  return el(
    "span",
    { class: "triple" },
    entityLink(head, head_name),
    el("span", { class: "relation" }, " ", labelOf(relation, relation_name), " "),
    icon("arrow"),
    entityLink(tail, tail_name),
  );
}

function agreement(spread) {
  if (spread < 0.25) return "that agree closely";
  if (spread < 0.5) return "that agree well";
  if (spread < 0.8) return "that agree in part";
  return "that point to different places";
}

/** How far to trust the vector of a new entity, in words. */
export function trustBlock({ triples, spread, expected_hits_at_10: hits }) {
  const isKnown = (figure) => figure !== null && figure !== undefined;
  return el(
    "p",
    { class: "trust" },
    el("strong", {}, "Trust "),
    `Its vector is made from ${counted(triples, "fact")}`,
    isKnown(spread) && ` ${agreement(spread)} (spread ${spread.toFixed(2)}, where two known entities are 1 apart)`,
    ". ",
    isKnown(hits)
      ? `The right answer to a question about it is among the first ten in ${percent(hits)} of cases.`
      : ["How often that is enough has not been measured for this model; ", el("code", {}, "ookg tune --save"), " does it."],
  );
}

/** A small word in a frame. */
export function tag(word, kind = "", hint = "") {
  return el("span", { class: `tag ${kind}`.trim(), title: hint || null }, word, hint && unseen(`, ${hint}`));
}
