// When the page asks the daemon: after events, and every few seconds for figures that no event tells. While the tab is
// hidden it asks nothing, and no stream is open.
import { ApiError, stream } from "./api.js";

const SHARE = 20;           // of the time, one part goes into asking and drawing
const LONGEST = 30_000;     // ms between two tries
const AFTER_EVENT = 1_000;  // ms in which events are gathered
const PIECE_EVERY = 250;    // ms between two pieces of the events: each costs, and nobody sees them sooner than AFTER_EVENT
const STREAM_AGAIN = 5_000; // ms until a stream that broke off is tried again

const visible = () => document.visibilityState === "visible";

// Has begin() called when the tab is seen again.
class WhileVisible {
  controller = null;
  timer = null;

  constructor() {
    this.onChange = () => (visible() ? this.begin() : this.end());
    document.addEventListener("visibilitychange", this.onChange);
  }

  get seen() {
    return visible() && !this.closed;
  }

  end() {
    clearTimeout(this.timer);
    this.timer = null;
    this.controller?.abort();
    this.controller = null;
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onChange);
    this.end();
  }

  // What came of how(signal): an error, or null; undefined where it was ended meanwhile.
  async attempt(how) {
    const controller = (this.controller = new AbortController());
    const error = await how(controller.signal).then(() => null, (caught) => caught);
    if (this.controller !== controller) return undefined;
    this.controller = null;
    return error;
  }
}

// Calls run(signal) every every() ms, earlier after soon(), less often where it takes long, and then told(error or null).
export class Poller extends WhileVisible {
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
    if (this.controller) this.#again = true;
    else this.#plan(Math.max(AFTER_EVENT, this.#rest()));
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
    const begin = performance.now();
    const error = await this.attempt(this.run);
    if (error === undefined) return;
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

// A stream of path(), opened again when it ends. took(bytes) for each piece, and none more until it is done; changed()
// when `connected` does. A browser has six connections to a server, and each stream takes one: a window has no other than
// that of the events.
class Stream extends WhileVisible {
  connected = false;

  constructor({ path, took, changed }) {
    super();
    Object.assign(this, { path, took, changed });
    this.begin();
  }

  async begin() {
    if (this.controller || !this.seen) return;
    clearTimeout(this.timer);
    const error = await this.attempt((signal) => stream(this.path(), signal, () => this.#set(true), this.took));
    if (error === undefined) return;
    this.#set(false);
    if (this.seen) this.timer = setTimeout(() => this.begin(), STREAM_AGAIN);
    if (error && !(error instanceof ApiError)) throw error;
  }

  end() {
    super.end();
    this.#set(false);
  }

  #set(connected) {
    if (this.connected === connected) return;
    this.connected = connected;
    this.changed();
  }
}

// The daemon's events; told(event) for each.
export function followEvents(told, changed) {
  let last = null, rest, decoder;
  return new Stream({
    path() {
      rest = "";
      decoder = new TextDecoder();
      // Of those that came while nobody looked, the newest few.
      return `/v1/events?follow=1&${last === null ? "limit=0" : `since=${last}&limit=20`}`;
    },
    took(piece) {
      const frames = (rest + decoder.decode(piece, { stream: true })).split("\n\n");
      rest = frames.pop();
      for (const frame of frames) {
        const data = frame.match(/^data: ?(.*)$/m);
        if (!data) continue;
        const event = JSON.parse(data[1]);
        last = event.id;
        told(event);
      }
      return new Promise((ended) => setTimeout(ended, PIECE_EVERY));
    },
    changed,
  });
}
