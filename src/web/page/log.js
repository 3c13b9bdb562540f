// The end of a job's log, which follows what the job writes.
import { stream } from "./api.js";
import { h, hide, setText } from "./dom.js";
import { Poller } from "./live.js";

const LINES = 300, LONGEST = 2_000;  // lines that are shown, and characters of each
const EVERY = 1_000;  // ms

// Without the signs by which a program moves the cursor or colours its text; of a line that was written over, the last.
function plain(line) {
  const text = line.replace(/\r+$/, "").split("\r").at(-1).replace(/\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)/g, "")
    .replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

// isOver(): the job writes no more.
export class Log {
  #lines = [];
  #rest = "";
  #decoder = new TextDecoder();  // a piece may end within a character
  #next = null;                  // the byte to go on at; null: nothing was read yet

  constructor(job, isOver) {
    Object.assign(this, { path: `/v1/jobs/${job}/log`, isOver });
    this.text = h("pre", { tabindex: 0, role: "region", "aria-label": `The end of the log of job ${job}` });
    this.note = h("p", { class: "dim" });
    this.element = h("div", {}, this.text, this.note);
    this.poller = new Poller((signal) => this.#read(signal), () => EVERY, (error) => this.#told(error));
  }

  async #read(signal) {
    this.over = this.isOver();  // before it is read: what comes later is not the end
    const began = (headers) => (this.#next = Number(headers.get("Gpuman-Log-Offset")));
    const took = (piece) => {
      this.#next += piece.length;
      const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split("\n");
      this.#rest = lines.pop().slice(-100_000);
      this.#lines = [...this.#lines, ...lines.slice(-LINES).map(plain)].slice(-LINES);
    };
    await stream(`${this.path}?${this.#next === null ? `tail=${LINES}` : `offset=${this.#next}`}`, signal, began, took);
  }

  #told(error) {
    if (error ? !error.away : this.over) this.poller.close();
    this.#draw();
    setText(this.note, error ? error.sentence
      : !this.over ? "It follows what the job writes." : this.text.textContent ? "That is all." : "It wrote nothing.");
  }

  #draw() {
    const { text } = this, atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 20;
    setText(text, [...this.#lines, ...(this.#rest ? [plain(this.#rest)] : [])].join("\n"));
    hide(text, text.textContent === "");
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  close() {
    this.poller.close();
    this.element.remove();
  }
}
