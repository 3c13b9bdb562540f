// How figures, times and texts of others are written: in the words of gpuman's commands. Pure.

export const UNKNOWN = "n/a";
const LONGEST = 2000;  // characters of a text that somebody else chose

export function bytes(count) {
  if (count == null) return UNKNOWN;
  let unit = 0, value = count;
  for (; value >= 1023.95 && unit < 5; ++unit) value /= 1024;
  return Math.round(value * 10) / 10 + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}

export const number = (value, unit = "", digits = 0) => (value == null ? UNKNOWN : value.toFixed(digits) + unit);

// Of a figure that would round to 0 and is none.
export const small = (value) => (value > 0 && value < 0.01 ? "<0.01" : value.toFixed(2));

const JOULES_OF_KWH = 3.6e6;

// Energy, and what the use cost where a price is set.
export const used = (joules, cost, currency) =>
  (joules == null ? UNKNOWN : `${small(joules / JOULES_OF_KWH)} kWh`) + (cost == null ? "" : `, ${cost.toFixed(2)} ${printable(currency)}`);

const two = (value) => String(Math.floor(value)).padStart(2, "0");

// Of milliseconds, in whole seconds.
export function duration(ms) {
  if (ms == null) return UNKNOWN;
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60 ? `${two(s % 60)}s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d${two((s % 86400) / 3600)}h`;
}

const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

export function clock(ms, seconds = true) {
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
}

export const local = (ms) => `${day(new Date(ms))} ${clock(ms)}`;
export const span = (since, until) => ` from ${clock(since)} to ${clock(until)}`;

// On an axis of so many ms.
export const tickText = (ms, length) => (length > 86_400_000 ? local(ms).slice(5, 16) : clock(ms, length < 600_000));

// An expected time; one that rests on jobs without a time limit (`about`) is a day alone.
export function when(ms, about, now = Date.now()) {
  if (ms == null) return UNKNOWN;
  const then = day(new Date(ms)), tomorrow = new Date(now);
  tomorrow.setDate(tomorrow.getDate() + 1);
  const today = then === day(new Date(now));
  const word = then === day(tomorrow) ? "tomorrow" : then;
  if (about) return `~${today ? "today" : word}`;
  return `${today ? "" : `${word} `}${clock(ms, false)}`;
}

// Of what others chose: cut, with signs that draw nothing or turn the line around as escapes.
export function printable(text) {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return cut.replace(/[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A sentence of the daemon, with the times in it in local time.
export const sentence = (text) =>
  printable(text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (time) => local(Date.parse(time))));

export const command = (words) =>
  words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`)).join(" ");

export const time = (iso) => (iso == null ? null : Date.parse(iso));

export const WAITING = ["queued", "held"];
export const AT_WORK = ["starting", "running", "suspended", "stopping"];
export const ENDED = ["finished", "failed", "cancelled", "timeout", "killed"];

// The class of a state's colour.
export function stateClass(state) {
  if (state === "running") return "good";
  if (["suspended", "stopping", "held"].includes(state)) return "warning";
  return ["failed", "killed", "timeout"].includes(state) ? "bad" : "";
}

export const gpuNumber = (gpu) => gpu.number ?? gpu.uuid.slice(0, 8);

// "0,2"; a job that waits has the GPUs that it may get.
export function gpusOf(job, gpus) {
  if (WAITING.includes(job.state)) return "-";
  return job.gpus.map((uuid) => gpuNumber(gpus.find((gpu) => gpu.uuid === uuid) ?? { uuid })).join(",") || "none";
}
