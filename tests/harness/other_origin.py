"""A page of another origin, which tries all that a browser lets a page do to a server that is not its own.

`OtherOrigin` serves the page. It is also a server that grants everything, so that a test can see that an attempt works
where nothing refuses it. Standard library only.
"""

import base64
import hashlib
import http.server
import json
import threading

# Returns what was read, by attempt; null: nothing. `calls`: [method, path, body] of what would change something.
ATTEMPTS = """
const [target, secret, calls] = arguments;
const url = target + "/v1/jobs";
const read = (options) => fetch(url, options).then((answer) => answer.text()).then((text) => text || null);
// The event that comes, as words; null: an error.
const event = (source, name) => new Promise((ended) => {
  source.addEventListener(name, (came) => ended(came.data ?? name));
  source.addEventListener("error", () => ended(null));
});
const element = (name, fields) => {
  const made = Object.assign(document.createElement(name), fields);
  const loaded = event(made, "load");
  document.body.append(made);
  return loaded;
};
const frame = (address) => new Promise((ended) => {
  addEventListener("message", (came) => ended(came.data), { once: true });
  element("iframe", { src: address }).then(() => setTimeout(() => ended(null), 300));  // it says so before it is loaded
});
const form = (path, body) => {
  const inside = document.createElement("iframe");
  inside.name = "inside";
  document.body.append(inside);
  const sent = document.createElement("form");
  Object.assign(sent, { method: "POST", action: target + path, target: "inside", enctype: "text/plain" });
  const input = document.createElement("input");
  // The sign between name and value is the form's: the body is as meant where it has one in a text.
  const at = body.indexOf("=");
  Object.assign(input, at < 0 ? { name: body.replace(/}$/, body == "{}" ? '"":"' : ',"":"'), value: '"}' } :
                                { name: body.slice(0, at), value: body.slice(at + 1) });
  sent.append(input);
  document.body.append(sent);
  const loaded = event(inside, "load");
  sent.submit();
  return loaded.then(() => { inside.remove(); return null; });
};
const opened = async () => {
  const other = open(target + "/");
  if (!other) return null;
  await new Promise((ended) => setTimeout(ended, 1000));
  try { return other.document.body.innerText; } catch { return null; } finally { other.close(); }
};
const tries = [
  ["fetch", () => read({})],
  ["fetch with cookies", () => read({ credentials: "include" })],
  ["fetch with the secret", () => read({ headers: { Authorization: `Bearer ${secret}` } })],
  ["fetch without cors", () => read({ mode: "no-cors", credentials: "include" })],
  ["events", () => event(new EventSource(target + "/v1/events?follow=1"), "message")],
  ["events with cookies", () => event(new EventSource(target + "/v1/events?follow=1", { withCredentials: true }), "message")],
  ["socket", () => event(new WebSocket(target.replace("http", "ws") + "/v1/events?follow=1"), "message")],
  ["image", () => element("img", { src: url })],
  ["script", () => element("script", { src: url })],
  ["module", () => element("script", { src: url, type: "module" })],
  ["frame", () => frame(target + "/")],
  ["window", opened],
];
for (const [method, path, body] of calls) {
  const options = { method, body: method == "GET" ? undefined : body, credentials: "include" };
  const call = (more) => () => fetch(target + path, { ...options, ...more }).then((answer) => answer.text()).then((text) => text || null);
  tries.push([`${method} ${path}`, call({})], [`${method} ${path} with the secret`, call({ headers: { Authorization: `Bearer ${secret}` } })]);
  if (method != "POST") continue;
  tries.push([`POST ${path} without cors`, call({ mode: "no-cors" })], [`form ${path}`, () => form(path, body)]);
}
return (async () => {
  const told = {};
  for (const [name, attempt] of tries) told[name] = await attempt().catch(() => null);
  return told;
})();
"""
PAGE = b"<!doctype html><title>other</title><body>granted<script>parent !== window && parent.postMessage('granted', '*')</script>"
TEXT = "granted"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, kind, body):
        self.send_response(200)
        for name, value in (("Content-Type", kind), ("Content-Length", len(body)), ("Access-Control-Allow-Origin", self.headers["Origin"] or "*"),
                            ("Access-Control-Allow-Credentials", "true"), ("Access-Control-Allow-Headers", "authorization"),
                            ("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def upgrade(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"\x81" + bytes([len(TEXT)]) + TEXT.encode() + b"\x88\x00")
        self.close_connection = True

    def take(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.seen.append((self.command, self.path, body.decode()))
        wanted = self.headers["Sec-Fetch-Dest"]
        if self.headers["Upgrade"]:
            self.upgrade()
        elif "text/event-stream" in (self.headers["Accept"] or ""):
            self.answer("text/event-stream", f"data: {TEXT}\n\n".encode())
        elif wanted == "image":
            self.answer("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>")
        elif wanted == "script":
            self.answer("text/javascript", b"0")
        elif self.path == "/":
            self.answer("text/html", PAGE)
        else:
            self.answer("application/json", TEXT.encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = take


class OtherOrigin:
    """`seen`: method, path and body of each request to it."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.seen = self.server.seen = []
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def attack(self, browser, name, target, secret, calls):
        """From a page of this server under this name of the machine. Returns what was read, by attempt."""
        browser.open(f"http://{name}:{self.port}/")
        return browser.run(ATTEMPTS, target, secret, [[method, path, json.dumps(body)] for method, path, body in calls])
