#!/usr/bin/env python3
"""Notifications: real daemon, real notifier, and receivers that refuse, delay, break off and lose messages.

Usage: notify_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import base64
import email
import email.policy
import http.server
import json
import os
import pathlib
import re
import select
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import DaemonTest, until  # noqa: E402
from machine import ROOT, program  # noqa: E402

SECRET = "hush, hush"
CONFIG = """
[notify]
allow = ["127.0.0.1"]
secret_file = "{secret}"
timeout = "5m"
retry_delay = "100ms"
retry_longest = "400ms"
{more}
"""


class Receiver:
    """An HTTP server that keeps its requests, and answers as the test sets it."""

    def __init__(self, context=None, port=0):
        self.got, self.plan, self.lock = [], {}, threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    receiver.got.append((self.path, dict(self.headers), body))
                    steps = receiver.plan.get(self.path, [])
                    step = steps.pop(0) if steps else 204
                step = step() if callable(step) else step
                if step == "close":
                    self.close_connection = True
                    return
                status, headers = step if isinstance(step, tuple) else (step, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # for clients that were killed, or refuse the server
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def at(self, path):
        with self.lock:
            return [(headers, body) for where, headers, body in self.got if where == path]


class Proxy(socketserver.ThreadingTCPServer):
    """Accepts requests for other servers itself: POSTs of whole URLs, and tunnels, which lead to `target`. Keeps the
    first lines."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, target=None):
        self.lines = []
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                proxy.lines.append(self.rfile.readline().decode().strip())
                length = 0
                while (line := self.rfile.readline().decode().strip().lower()):
                    if line.startswith("content-length:"):
                        length = int(line.split(":")[1])
                if not proxy.lines[-1].startswith("CONNECT"):
                    self.rfile.read(length)
                    self.wfile.write(b"HTTP/1.1 204 taken\r\nConnection: close\r\n\r\n")
                    return
                with socket.create_connection(("127.0.0.1", target)) as other:
                    self.wfile.write(b"HTTP/1.1 200 go on\r\n\r\n")
                    pairs = {self.connection: other, other: self.connection}
                    while True:
                        for one in select.select(list(pairs), [], [])[0]:
                            data = one.recv(65536)
                            if not data:
                                return
                            pairs[one].sendall(data)

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class Mailbox(socketserver.ThreadingTCPServer):
    """The part of SMTP that a client needs to deliver a mail. With a TLS context: from the start (`whole`), or by
    STARTTLS; then a client can deliver only after it has logged in with `login`."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, context=None, whole=False, login=None):
        self.mails, self.refuse, self.lines = [], [], []
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, line):
                self.wfile.write(line.encode() + b"\r\n")

            def secure(self):
                self.request = context.wrap_socket(self.request, server_side=True)
                socketserver.StreamRequestHandler.setup(self)

            def finish(self):
                super().finish()
                self.request.close()

            def handle(self):
                if whole:
                    self.secure()
                self.say("220 mailbox")
                sender, receivers, known = None, [], login is None
                while line := self.rfile.readline().decode().rstrip("\r\n"):
                    word = line.upper()
                    secure = isinstance(self.request, ssl.SSLSocket)
                    mailbox.lines.append((secure, line))
                    if word.startswith("EHLO"):
                        self.say("250-mailbox")
                        if context and not secure:
                            self.say("250-STARTTLS")
                        if login and secure:
                            self.say("250-AUTH PLAIN")
                        self.say("250 8BITMIME")
                        continue
                    if word == "STARTTLS":
                        self.say("220 go on")
                        self.secure()
                        continue
                    if word.startswith("AUTH PLAIN"):
                        self.say("334 ")
                        _, user, password = base64.b64decode(self.rfile.readline()).decode().split("\0")
                        known = (user, password) == login
                        self.say("235 welcome" if known else "535 not you")
                        continue
                    if word.startswith("MAIL FROM:") and not known:
                        self.say("530 log in first")
                        continue
                    if word.startswith("MAIL FROM:"):
                        sender = line[10:].split()[0]
                    if word.startswith("RCPT TO:"):
                        if mailbox.refuse:
                            self.say(mailbox.refuse.pop(0))
                            continue
                        receivers.append(line[8:].split()[0])
                    if word == "DATA":
                        self.say("354 go on")
                        text = b""
                        while not text.endswith(b"\r\n.\r\n"):
                            text += self.rfile.readline()
                        mailbox.mails.append((sender, receivers, text[:-3]))
                    self.say("221 bye" if word == "QUIT" else "250 fine")
                    if word == "QUIT":
                        return

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class NotifyCase(DaemonTest):
    gpus, memory, more = 1, "4GiB", ""

    @classmethod
    def prepare(cls):
        cls.receiver = Receiver()
        cls.addClassCleanup(cls.receiver.close)
        cls.configure()

    @classmethod
    def configure(cls, more=""):
        secret = cls.m.dir / "secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        pathlib.Path(cls.m.env["GPUMAN_CONFIG"]).write_text(CONFIG.format(secret=secret, more=cls.more + more))

    def certificate(self):
        """Makes a self-signed certificate for this machine; returns its file, and a TLS context for a server with
        it."""
        made = self.m.dir / "tls"
        made.mkdir(exist_ok=True)
        done = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x", "-addext",
                               "subjectAltName=IP:127.0.0.1", "-keyout", made / "key", "-out", made / "cert"], capture_output=True)
        if done.returncode != 0:
            self.skipTest("no openssl to make a certificate with")
        made.chmod(0o755)
        (made / "cert").chmod(0o644)
        self.m.dir.chmod(0o755)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made / "cert", made / "key")
        return made / "cert", context

    def reload(self):
        log = self.m.dir / "daemon.log"
        before = log.read_text().count("configuration read again")
        self.m.daemon.send_signal(signal.SIGHUP)
        until("the configuration is read", lambda: log.read_text().count("configuration read again") > before)

    def submit(self, script, *, status=201, more=None, **notify):
        job = {"command": ["/bin/sh", "-c", script], "notify": notify, **(more or {})}
        environment = {name: value for name, value in self.m.env.items()
                       if name.startswith("GPUMAN_SIM") or name in ("LD_LIBRARY_PATH", "PATH")}
        body = {"jobs": [job], "directory": "/", "environment": environment}
        answer = self.request("POST", "/v1/submissions", body)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()["jobs"][0]["id"] if status == 201 else answer.json()["error"]

    def told(self, path, count=1):
        until(f"{path} is told {count} times", lambda: len(self.receiver.at(path)) >= count)
        return self.receiver.at(path)

    def left(self, job):
        return self.job(job)["queue"].get("notifications", [])

    def failure(self, job):
        event = until("it is given up", lambda: [e for e in self.events()
                                                 if e["kind"] == "notification_failed" and e["job"] == job])[0]
        return event["message"]


class ProxyTest(NotifyCase):
    """The daemon's environment names a proxy; messages of users must not use it."""

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.others = Proxy()
        cls.addClassCleanup(cls.others.close)
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            cls.m.env[name] = cls.others.url

    def through(self, proxy, more=""):
        self.addCleanup(proxy.close)
        self.configure(f'proxy = "{proxy.url}"\n{more}')
        self.addCleanup(self.reload)
        self.addCleanup(self.configure)
        self.reload()

    def test_a_proxy_of_the_environment_is_not_used(self):
        self.submit("exit 0", webhooks=[self.receiver.url + "/straight"])
        self.told("/straight")
        self.assertEqual(self.others.lines, [])

    def test_webhooks_go_through_the_proxy_of_the_configuration_whatever_their_address(self):
        proxy = Proxy()
        self.through(proxy)
        # The proxy resolves names and addresses: the first name exists nowhere, and the second address is private.
        for url in ("http://hooks.nowhere.invalid/x", "http://10.0.0.1:81/y"):
            job = self.submit("exit 0", webhooks=[url])
            until("it is delivered", lambda: f"POST {url} HTTP/1.1" in proxy.lines and self.left(job) == [])
        self.assertEqual(self.others.lines, [])

    def test_an_encrypted_webhook_goes_through_a_tunnel(self):
        made, context = self.certificate()
        server = Receiver(context)
        self.addCleanup(server.close)
        proxy = Proxy(server.port)
        self.through(proxy, f'ca_file = "{made}"')
        self.submit("exit 0", webhooks=["https://127.0.0.1:1/tunnel"])
        until("it is delivered", lambda: server.at("/tunnel"))
        self.assertEqual(proxy.lines, ["CONNECT 127.0.0.1:1 HTTP/1.1"])


class WebhookTest(NotifyCase):
    def test_each_end_is_told_signed_and_once_and_nothing_is_left(self):
        job = self.submit("exit 3", more={"name": "train"}, webhooks=[self.receiver.url + "/end"])
        (headers, body), = self.told("/end")
        until("the message is deleted", lambda: self.left(job) == [])
        told = json.loads(body)
        self.assertEqual(told["event"], "failed")
        self.assertEqual((told["job"]["id"], told["job"]["name"], told["job"]["exit_code"]), (job, "train", 3))
        self.assertEqual(told["delivery"], headers["Gpuman-Delivery"])
        self.assertEqual(headers["Gpuman-Event"], "failed")
        self.assertEqual(headers["Content-Type"], "application/json")
        page = (ROOT / "docs/notifications.md").read_text()
        example = {}
        exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), example)
        genuine, signature = example["is_genuine"], headers["Gpuman-Signature"]
        hour = 3600  # the machine may be busy; this test only checks the signature
        self.assertTrue(genuine(SECRET.encode(), signature, body, hour))
        self.assertFalse(genuine(b"another", signature, body, hour))
        self.assertFalse(genuine(SECRET.encode(), signature, body + b" ", hour))
        self.assertFalse(genuine(SECRET.encode(), signature.replace("t=", "t=1"), body, 1 << 60))
        self.assertFalse(genuine(SECRET.encode(), signature, body, -1))

    def test_requested_events_are_sent_in_their_order(self):
        self.submit("exit 0", webhooks=[self.receiver.url + "/all"], on=["all"])
        events = [json.loads(body)["event"] for _, body in self.told("/all", 2)]
        self.assertEqual(events, ["started", "finished"])
        quiet = self.submit("exit 0", webhooks=[self.receiver.url + "/quiet"], on=["failed"])
        self.wait(quiet)
        killed = self.submit("sleep 1000", webhooks=[self.receiver.url + "/cancelled"])
        self.becomes(killed, "running")
        self.request("POST", "/v1/cancellations", {"jobs": [str(killed)]})
        self.assertEqual(json.loads(self.told("/cancelled")[0][1])["job"]["state"], "cancelled")
        self.assertEqual(self.receiver.at("/quiet"), [])

    def test_every_kind_of_event_is_told(self):
        url = self.receiver.url
        self.submit("exit 1", webhooks=[url + "/retried"], on=["all"], more={"retries": {"count": 1}})
        self.submit("exec sleep 1000", webhooks=[url + "/limited"], more={"time_limit_s": 0.2})
        held = self.submit("exec " + self.load("64MiB", "--hold", "1h"), webhooks=[url + "/suspended"], on=["suspended", "killed"],
                           more={"gpus": {"count": 1}})
        until("it has its memory", lambda: self.job(held)["memory"]["used"])
        self.assertEqual(self.request("POST", f"/v1/jobs/{held}/suspend").status, 200)
        told = json.loads(self.told("/suspended")[0][1])
        self.assertEqual((told["event"], told["job"]["state"]), ("suspended", "suspended"))
        self.assertEqual(len(told["job"]["gpus"]), 1)
        self.assertEqual(self.request("POST", f"/v1/jobs/{held}/resume").status, 200)
        self.becomes(held, "running")
        self.request("DELETE", f"/v1/jobs/{held}")
        events = lambda path, count: [json.loads(body)["event"] for _, body in self.told(path, count)]  # noqa: E731
        # The job is removed by now; its notifications are not.
        self.assertEqual(events("/suspended", 2), ["suspended", "killed"])
        self.assertEqual(events("/retried", 4), ["started", "requeued", "started", "failed"])
        self.assertEqual(events("/limited", 1), ["timeout"])

    def test_who_asked_for_much_more_memory_than_the_job_used_is_told_so(self):
        self.submit("exec " + self.load("64MiB", "--hold", "0s"), webhooks=[self.receiver.url + "/wide"],
                    more={"gpus": {"count": 1}, "memory": "2GiB"})
        told = json.loads(self.told("/wide")[0][1])
        self.assertEqual(told["event"], "finished")
        self.assertRegex("\n".join(told["notes"]), r"its limit was 2GiB on each GPU, and it used \S+ at most: `--memory \S+` is enough")

    def test_a_receiver_that_fails_is_tried_again_with_the_same_id_and_those_behind_wait(self):
        self.receiver.plan["/flaky"] = [500, "close", 503, (429, {"Retry-After": "1"}), 408]
        self.submit("exit 0", webhooks=[self.receiver.url + "/flaky"], on=["started", "finished"])
        got = self.told("/flaky", 7)
        events = [headers["Gpuman-Event"] for headers, _ in got]
        self.assertEqual(events, ["started"] * 6 + ["finished"])
        self.assertEqual(len({headers["Gpuman-Delivery"] for headers, _ in got[:6]}), 1)
        self.assertEqual(len({body for _, body in got[:6]}), 1)

    def test_an_answer_that_is_final_gives_it_up_and_says_so(self):
        self.receiver.plan["/gone"] = [410]
        self.receiver.plan["/moved"] = [(302, {"Location": self.receiver.url + "/elsewhere"})]
        job = self.submit("exit 0", webhooks=[self.receiver.url + "/gone"])
        self.assertIn("given up after 1 attempt: the receiver answered 410", self.failure(job))
        left, = self.left(job)
        self.assertEqual((left["state"], left["attempts"], left["event"]), ("failed", 1, "finished"))
        self.assertEqual(left["to"], f"http://127.0.0.1:{self.receiver.port}/…")
        shown = self.m.run("job", "show", str(job)).stdout
        self.assertIn("Not delivered", shown)
        self.assertIn("410", shown)
        self.assertIn("redirects are not followed", self.failure(self.submit("exit 0", webhooks=[self.receiver.url + "/moved"])))
        self.assertEqual(self.receiver.at("/elsewhere"), [])

    def test_nobody_there_is_tried_until_somebody_is(self):
        late = Receiver()
        late.close()
        job = self.submit("exit 0", webhooks=[late.url + "/late"])
        left = until("it was tried", lambda: [n for n in self.left(job) if n["attempts"] > 1])
        self.assertEqual(left[0]["state"], "waiting")
        self.assertIn("connect", left[0]["problem"].lower())
        self.assertIsNotNone(left[0]["next_attempt"])
        self.assertNotIn("/late", json.dumps(left))
        here = Receiver(port=late.port)
        self.addCleanup(here.close)
        until("it is delivered", lambda: here.at("/late"))
        until("nothing is left", lambda: self.left(job) == [])

    def test_a_certificate_that_is_wrong_is_an_error_that_says_so(self):
        made, context = self.certificate()
        server = Receiver(context)
        self.addCleanup(server.close)
        job = self.submit("exit 0", webhooks=[server.url + "/tls"])
        problem = until("it was tried", lambda: [n["problem"] for n in self.left(job) if n["problem"]])[0]
        self.assertIn("certificate", problem)
        self.assertEqual(server.at("/tls"), [])
        # Once the daemon knows that certificate, the message arrives.
        self.configure(f'ca_file = "{made}"')
        self.addCleanup(self.reload)
        self.addCleanup(self.configure)
        self.reload()
        until("it is delivered", lambda: server.at("/tls"))

    def test_everybody_sees_the_receivers_without_what_may_be_secret(self):
        url = self.receiver.url
        job = self.submit("exit 0", more={"hold": True}, webhooks=[f"{url}/secret?token=hush"], mails=["a@b"], on=["all"])
        shown = self.job(job)["queue"]["asked"]["notify"]
        self.assertEqual(shown, {"webhooks": [f"{url}/…"], "mails": ["a@b"], "on": ["all"]})
        for command in (("job", "show", str(job)), ("job", "show", str(job), "--json"), ("queue", "--json")):
            self.assertNotIn("hush", self.m.run(*command).stdout, command)
        # What is changed beside them leaves them as they were.
        changed = self.request("PATCH", f"/v1/jobs/{job}", {"queue": {"notify": {"mails": [], "on": ["finished"]}}})
        self.assertEqual(changed.status, 200, changed.body)
        self.request("POST", f"/v1/jobs/{job}/release")
        self.told("/secret?token=hush")

    def test_addresses_that_are_not_public_are_refused(self):
        for url, what in {"http://127.0.0.2/": "the machine itself", "http://[::1]:8000/": "the machine itself",
                          "http://10.0.0.1/": "a private network", "http://169.254.169.254/latest": "the local link",
                          "ftp://example.org/": "does not begin with", "http://a b/": "must be written as",
                          "http://": "names no host"}.items():
            error = self.submit("exit 0", status=400, webhooks=[url])
            self.assertIn(what, error["message"])
            done = self.m.run("submit", "--notify-url", url, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(self.m.run("submit", "--notify-mail", "a@b\r\nBcc: c@d", "--", "true").returncode, 2)
        waiting = self.submit("exit 0", more={"hold": True})
        refused = self.request("PATCH", f"/v1/jobs/{waiting}", {"queue": {"notify": {"webhooks": ["http://10.0.0.1/"]}}})
        self.assertEqual(refused.status, 400, refused.body)
        self.assertIn("a private network", refused.json()["error"]["message"])
        # The daemon also checks when it connects: an address that was allowed is no longer allowed.
        running = self.submit("sleep 1000", webhooks=[self.receiver.url + "/later"])
        self.becomes(running, "running")
        file = pathlib.Path(self.m.env["GPUMAN_CONFIG"])
        file.write_text(file.read_text().replace('allow = ["127.0.0.1"]', 'allow = ["127.0.0.9"]'))
        self.addCleanup(self.reload)
        self.addCleanup(self.configure)
        self.reload()
        self.request("POST", "/v1/cancellations", {"jobs": [str(running)]})
        self.assertIn("127.0.0.1 is an address of the machine itself, and notify.allow does not name it", self.failure(running))
        self.assertEqual(self.receiver.at("/later"), [])

    def test_the_notifier_is_there_only_while_it_has_something_to_do(self):
        release = threading.Event()
        self.addCleanup(release.set)
        self.receiver.plan["/held"] = [lambda: release.wait() and 204]
        self.submit("exit 0", webhooks=[self.receiver.url + "/held"])
        self.told("/held")
        notifiers = lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and self.is_notifier(pid)]  # noqa: E731
        self.assertEqual(len(notifiers()), 1)
        # A notifier dies at work: another one sends its message again.
        os.kill(int(notifiers()[0]), signal.SIGKILL)
        self.told("/held", 2)
        release.set()
        until("it is gone", lambda: not notifiers())
        first, second = self.receiver.at("/held")[:2]
        self.assertEqual(first[0]["Gpuman-Delivery"], second[0]["Gpuman-Delivery"])

    def is_notifier(self, pid):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False
        return "gpuman-notifier"[:15] in status.splitlines()[0] and f"PPid:\t{self.m.daemon.pid}\n" in status

    def test_a_daemon_killed_between_the_event_and_the_delivery_loses_nothing(self):
        release = threading.Event()
        self.addCleanup(release.set)
        path = "/killed"
        for round in range(5):
            self.receiver.plan[path] = [lambda: release.wait() and 503]
            before = len(self.receiver.at(path))
            jobs = [self.submit("exit 0", webhooks=[self.receiver.url + path]) for _ in range(3)]
            for job in jobs:
                self.becomes(job, "finished")
            self.told(path, before + 1)
            self.m.stop_daemon(signal.SIGKILL)
            release.set()
            self.m.start_daemon()
            until("each is told", lambda: {json.loads(body)["job"]["id"] for _, body in self.receiver.at(path)} >= set(jobs))
            release.clear()
        ids = {}
        for headers, body in self.receiver.at(path):
            ids.setdefault(json.loads(body)["job"]["id"], set()).add(headers["Gpuman-Delivery"])
        self.assertEqual({len(of_job) for of_job in ids.values()}, {1})
        until("nothing is left", lambda: all(not self.left(job) for job in ids))


class LimitsTest(NotifyCase):
    more = 'give_up = "0s"\nper_user = 2\n'

    def test_old_messages_are_given_up_and_excess_ones_dropped(self):
        self.receiver.plan["/down"] = [500]
        job = self.submit("exit 0", webhooks=[self.receiver.url + "/down"])
        self.assertIn("the receiver answered 500", self.failure(job))
        release = threading.Event()
        self.addCleanup(release.set)
        self.receiver.plan["/slow"] = [lambda: release.wait() and 204]
        jobs = [self.submit("exit 0", webhooks=[self.receiver.url + "/slow"]) for _ in range(4)]
        for job in jobs:
            self.becomes(job, "finished")
        dropped = until("one is dropped", lambda: [e for e in self.events() if "too many wait" in e["message"]])
        self.assertEqual(len(dropped), 1)
        release.set()
        self.told("/slow", 2)
        until("they are delivered", lambda: not any(self.left(job) for job in jobs))
        self.assertEqual(len(self.receiver.at("/slow")), 2)


class AdministratorTest(NotifyCase):
    @classmethod
    def configure(cls, more=""):
        super().configure(f'webhooks = ["{cls.receiver.url}/ops"]\nevents = ["job_failed", "notification_failed"]\n')

    def test_events_are_told_to_administrators(self):
        self.receiver.plan["/gone"] = [410]
        self.receiver.plan["/ops"] = [500]
        job = self.submit("exit 1", more={"name": "train"}, webhooks=[self.receiver.url + "/gone"])
        told = {}
        until("both are told", lambda: told.update({json.loads(b)["event"]: json.loads(b) for _, b in self.receiver.at("/ops")})
              or len(told) == 2)
        self.assertEqual(told["job_failed"]["job"], {"id": job, "name": "train"})
        self.assertIn("410", told["notification_failed"]["message"])

    def test_a_configuration_that_is_wrong_is_refused_and_the_former_one_stays(self):
        secret = self.m.dir / "secret"
        secret.chmod(0o640)
        self.addCleanup(secret.chmod, 0o600)
        done = subprocess.run([program("gpumand"), "--check-config"], env=self.m.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("notify.secret_file", done.stderr)
        self.assertIn("open to others (mode 0640)", done.stderr)
        self.m.daemon.send_signal(signal.SIGHUP)
        log = self.m.dir / "daemon.log"
        until("it is refused", lambda: "the configuration is wrong and was not taken" in log.read_text())
        self.assertEqual(self.request("GET", "/v1/status").status, 200)


class MailTest(NotifyCase):
    @classmethod
    def prepare(cls):
        cls.mailbox = Mailbox()
        cls.addClassCleanup(cls.mailbox.server_close)
        cls.addClassCleanup(cls.mailbox.shutdown)
        super().prepare()

    @classmethod
    def configure(cls, more=None):
        super().configure(f'[notify.smtp]\nserver = "127.0.0.1"\nport = {cls.mailbox.port}\ntls = "none"\nfrom = "gpuman@example.org"\n'
                          if more is None else more)

    def test_a_mail_is_sent(self):
        self.submit("exit 3", more={"name": "train"}, mails=["ada@example.org"])
        sender, receivers, text = until("the mail is there", lambda: self.mailbox.mails and self.mailbox.mails.pop())
        self.assertEqual((sender, receivers), ("<gpuman@example.org>", ["<ada@example.org>"]))
        mail = email.message_from_bytes(text, policy=email.policy.default)
        self.assertEqual((mail["From"], mail["To"]), ("gpuman@example.org", "ada@example.org"))
        self.assertRegex(mail["Subject"], r"\[gpuman\] \d+ train: failed")
        self.assertIn("ended with exit status 3", mail.get_content())
        self.assertEqual(mail.defects, [])

    def test_one_that_is_refused_for_now_comes_later_and_one_that_is_refused_is_given_up(self):
        self.mailbox.refuse = ["451 later"]
        self.submit("exit 0", mails=["bob@example.org"])
        _, receivers, _ = until("the mail is there", lambda: self.mailbox.mails and self.mailbox.mails.pop())
        self.assertEqual(receivers, ["<bob@example.org>"])
        self.mailbox.refuse = ["550 nobody here"]
        job = self.submit("exit 0", mails=["nobody@example.org"])
        self.assertIn("550", self.failure(job))

    def test_without_a_server_it_waits_until_there_is_one(self):
        self.configure("")
        self.reload()
        done = self.m.run("submit", "--notify-mail", "carol@example.org", "--name", "waits", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this machine sends no mail", done.stderr)
        until("it was tried", lambda: any("notify.smtp.server" in (n["problem"] or "") for n in self.left("waits")))
        self.configure()
        self.reload()
        _, receivers, _ = until("the mail is there", lambda: self.mailbox.mails and self.mailbox.mails.pop())
        self.assertEqual(receivers, ["<carol@example.org>"])


class SecureMailTest(NotifyCase):
    login = ("gpuman", "s3cret pass")

    def served(self, tls, context, password=None):
        """Makes a server, and starts the daemon that sends mail through it."""
        mailbox = Mailbox(context, tls == "tls", self.login)
        self.addCleanup(mailbox.server_close)
        self.addCleanup(mailbox.shutdown)
        file = self.m.dir / "password"
        file.write_text((password or self.login[1]) + "\n")
        file.chmod(0o600)
        self.configure(f'ca_file = "{self.m.dir}/tls/cert"\n[notify.smtp]\nserver = "127.0.0.1"\nport = {mailbox.port}\ntls = "{tls}"\n'
                       f'from = "gpuman@example.org"\nuser = "{self.login[0]}"\npassword_file = "{file}"\n')
        self.reload()
        return mailbox

    def problem(self, job):
        """The problem of a mail that is tried again, or was given up."""
        return until("it was tried", lambda: [n["problem"] for n in self.left(job) if n["problem"]] or
                     [e["message"] for e in self.events() if e["kind"] == "notification_failed" and e["job"] == job])[0]

    def test_a_mail_goes_by_tls_and_starttls_with_a_password(self):
        _, context = self.certificate()
        for tls in ("starttls", "tls"):
            with self.subTest(tls):
                mailbox = self.served(tls, context)
                self.submit("exit 0", mails=["ada@example.org"])
                _, receivers, _ = until("the mail is there", lambda: mailbox.mails and mailbox.mails.pop())
                self.assertEqual(receivers, ["<ada@example.org>"])
                self.assertEqual([line for secure, line in mailbox.lines if not secure and not line.startswith(("EHLO", "STARTTLS"))], [])

    def test_a_server_without_tls_gets_neither_password_nor_mail(self):
        self.certificate()
        mailbox = self.served("starttls", None)
        job = self.submit("exit 0", mails=["bob@example.org"])
        problem = self.problem(job)
        self.assertRegex(problem, "STARTTLS|TLS|SSL")
        self.assertEqual(mailbox.mails, [])
        self.assertFalse([line for _, line in mailbox.lines if line.upper().startswith(("AUTH", "MAIL", "RCPT"))])

    def test_a_password_that_is_wrong_is_an_error_that_says_so(self):
        _, context = self.certificate()
        mailbox = self.served("tls", context, "another")
        job = self.submit("exit 0", mails=["carol@example.org"])
        problem = self.problem(job)
        self.assertRegex(problem, "535|[Ll]ogin")
        self.assertEqual(mailbox.mails, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
