// The end of a job's log, which follows what the job writes.
import { ApiError } from "./api.js";
import { h, hide, setText } from "./dom.js";
import { Stream } from "./live.js";

const LINES = 300, LONGEST = 2_000;  // that are shown, and characters of each
const DRAW_EVERY = 700;  // ms

// Without the signs by which a program moves the cursor or colours its text; of a line that was written over, the last.
function plain(line) {
  const text = line.replace(/\r+$/, "").split("\r").at(-1).replace(/\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)/g, "")
    .replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

export class Log {
  #lines = [];
  #rest = "";

  constructor(job) {
    this.text = h("pre", { tabindex: 0, role: "region", "aria-label": `The end of the log of job ${job}` });
    this.note = h("p", { class: "dim" });
    this.element = h("div", {}, this.text, this.note);
    this.stream = new Stream({
      path: () => {
        this.#lines = [];
        this.#rest = "";
        return `/v1/jobs/${job}/log?follow=1&tail=${LINES}`;
      },
      took: (piece) => {
        const lines = (this.#rest + piece).split("\n");
        this.#rest = lines.pop().slice(-100_000);
        this.#lines = [...this.#lines, ...lines.slice(-LINES).map(plain)].slice(-LINES);
        this.timer ??= setTimeout(() => this.#draw(), DRAW_EVERY);
      },
      changed: () => this.#draw(),
      ended: (error) => {
        setText(this.note, error instanceof ApiError ? error.sentence : this.text.textContent ? "That is all." : "It wrote nothing.");
        return !error?.away;
      },
    });
  }

  #draw() {
    clearTimeout(this.timer);
    this.timer = null;
    const { text } = this, atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 20;
    setText(text, [...this.#lines, ...(this.#rest ? [plain(this.#rest)] : [])].join("\n"));
    hide(text, text.textContent === "");
    if (this.stream?.connected) setText(this.note, "It follows what the job writes.");
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  close() {
    this.stream.close();
    clearTimeout(this.timer);
    this.element.remove();
  }
}
