// When the page asks the daemon: after events, and every few seconds for figures that no event tells. While the tab is
// hidden it asks nothing, and no stream is open.
import { ApiError, stream } from "./api.js";

const SHARE = 20;           // of the time, one part goes into asking and drawing
const LONGEST = 30_000;     // ms between two tries
const AFTER_EVENT = 500;    // ms in which events are gathered
const STREAM_AGAIN = 5_000; // ms until a stream that broke off is tried again

const visible = () => document.visibilityState === "visible";

// Calls run() while the tab is seen, and stop() when it is hidden or closed.
export class WhileVisible {
  constructor() {
    this.changed = () => (visible() ? this.begin() : this.end());
    document.addEventListener("visibilitychange", this.changed);
  }

  get seen() {
    return visible() && !this.closed;
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.changed);
    this.end();
  }
}

// Calls run(signal) every every() ms, and earlier after soon(). What takes long is called less often. told(error or null)
// hears what came of it.
export class Poller extends WhileVisible {
  #controller = null;
  #last = -Infinity;
  #cost = 0;
  #failures = 0;
  #again = false;

  constructor(run, every, told) {
    super();
    Object.assign(this, { run, every, told });
    this.begin();
  }

  // At once; of an answer that is on its way nothing is taken.
  begin() {
    this.end();
    this.#plan(0);
  }

  soon() {
    if (this.#controller) this.#again = true;
    else this.#plan(Math.max(AFTER_EVENT, this.#rest()));
  }

  end() {
    clearTimeout(this.timer);
    this.timer = null;
    this.#controller?.abort();
    this.#controller = null;
  }

  #rest() {
    return Math.min(this.#cost * SHARE, LONGEST) - (performance.now() - this.#last);
  }

  #plan(wait) {
    const due = performance.now() + wait;
    if (!this.seen || (this.timer && this.due <= due)) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => this.#go(), wait);
  }

  async #go() {
    this.timer = null;
    const controller = (this.#controller = new AbortController());
    const begin = performance.now();
    const error = await Promise.resolve(this.run(controller.signal)).then(() => null, (caught) => caught);
    if (this.#controller !== controller) return;  // ended meanwhile
    this.#controller = null;
    this.#last = performance.now();
    this.#cost = this.#last - begin;
    this.#failures = error ? this.#failures + 1 : 0;
    const wait = error ? Math.min(1000 * 2 ** this.#failures, LONGEST) : this.#again ? AFTER_EVENT : this.every();
    this.#again = false;
    this.#plan(Math.max(wait, this.#rest()));
    if (error && !(error instanceof ApiError)) throw error;
    this.told(error);
  }
}

// A stream that is opened again when it breaks off. path(): what to ask for; took(text); `connected`: whether it is open,
// changed() hears of that; ended(error or null) returns whether that was all of it.
export class Stream extends WhileVisible {
  connected = false;
  #controller = null;

  constructor({ path, took, changed = () => {}, ended = () => false }) {
    super();
    Object.assign(this, { path, took, told: changed, ended });
    this.begin();
  }

  async begin() {
    if (this.#controller || !this.seen) return;
    clearTimeout(this.timer);
    const controller = (this.#controller = new AbortController());
    const error = await stream(this.path(), controller.signal, () => this.#set(true), this.took)
      .then(() => null, (caught) => caught);
    if (this.#controller !== controller) return;
    this.#controller = null;
    this.#set(false);
    if (!this.ended(error) && this.seen) this.timer = setTimeout(() => this.begin(), STREAM_AGAIN);
    if (error && !(error instanceof ApiError)) throw error;
  }

  end() {
    clearTimeout(this.timer);
    this.#controller?.abort();
    this.#controller = null;
    this.#set(false);
  }

  #set(connected) {
    if (this.connected === connected) return;
    this.connected = connected;
    this.told();
  }
}

// The daemon's events; told(event) for each.
export function followEvents(told, changed) {
  let last = null, rest = "";
  return new Stream({
    path() {
      rest = "";
      // Of those that came while nobody looked, the newest few.
      return `/v1/events?follow=1&${last === null ? "limit=0" : `since=${last}&limit=20`}`;
    },
    took(piece) {
      const frames = (rest + piece).split("\n\n");
      rest = frames.pop();
      for (const frame of frames) {
        const data = frame.match(/^data: ?(.*)$/m);
        if (!data) continue;
        const event = JSON.parse(data[1]);
        last = event.id;
        told(event);
      }
    },
    changed,
  });
}
