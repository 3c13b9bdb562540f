"""`gpuman web` as a test starts it, and plain HTTP with it.

Standard library only.
"""

import dataclasses
import gzip
import http.client
import json
import subprocess
import urllib.parse

PATIENCE = 60  # seconds for one answer


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]["message"]


class Linked:
    """What is behind a link to the page."""

    def __init__(self, link):
        self.link = link
        parts = urllib.parse.urlsplit(link)
        self.port = parts.port
        self.secret = parts.fragment.removeprefix("secret=")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def headers(self, **changes):
        """What the page sends; `changes` replace, None leaves out."""
        sent = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.secret}"}
        sent.update({name.replace("_", "-"): value for name, value in changes.items()})
        return {name: value for name, value in sent.items() if value is not None}

    def ask(self, path, method="GET", body=None, **headers):
        connection = self.connect()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), self.headers(**headers))
            answer = connection.getresponse()
            body = answer.read()
            if answer.getheader("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            return Answer(answer.status, dict(answer.getheaders()), body)
        finally:
            connection.close()


class Page(Linked):
    """`process`: a running `gpuman web` whose output is a pipe."""

    def __init__(self, process):
        self.process = process
        super().__init__(process.stdout.readline().decode().strip())

    def end(self, signal):
        """Sends the signal; returns the exit status and the rest of the output."""
        self.process.send_signal(signal)
        try:
            rest = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, rest


def start_page(test, command, env):
    """Starts that `gpuman web`, which ends with the test."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    test.addCleanup(lambda: (process.kill(), process.communicate()))
    return Page(process)
