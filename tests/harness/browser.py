"""Chromium without a window, driven by chromedriver over WebDriver's own protocol (https://www.w3.org/TR/webdriver2/).

Standard library only.
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

PATIENCE = 120  # seconds for one command

# Keys that are no signs, as WebDriver names them.
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"


def missing():
    """What this machine lacks for a browser; empty: nothing."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    """`dark`: what the browser says that its user prefers. `arguments`: more of the command line."""

    def __init__(self, width=1280, height=800, dark=False, arguments=()):
        self.home = tempfile.TemporaryDirectory(prefix="gpuman-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       start_new_session=True, env={**os.environ, "HOME": self.home.name, "TMPDIR": self.home.name})
        for line in self.driver.stdout:
            if started := re.search(r"started successfully on port (\d+)", line):
                break
        self.port, self.session = int(started[1]), ""
        arguments = [*arguments, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                     f"--window-size={width},{height}"] + (["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else [])
        options = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}}
        self.session = "/session/" + self.send("POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
        self.size(width, height)
        self.send("POST", self.session + "/timeouts", {"script": 60_000})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError, RuntimeError):
            self.send("DELETE", self.session)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
        self.driver.stdout.close()
        self.home.cleanup()

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, None if method != "POST" else json.dumps(body or {}))
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value['message']}")
        return value

    def command(self, name, **parameters):
        """One of Chromium's own (https://chromedevtools.github.io/devtools-protocol/)."""
        return self.send("POST", self.session + "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height):
        """Of the page: the window's frame takes some of the window's size."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        """What the user prefers, "dark" or "light"; "": what the browser was started with."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, link):
        self.send("POST", self.session + "/url", {"url": link})

    def open_window(self, link):
        """In a window of its own beside the others. Returns its handle, for use()."""
        handle = self.send("POST", self.session + "/window/new", {"type": "window"})["handle"]
        self.use(handle)
        self.open(link)
        return handle

    def use(self, window):
        """What follows is about this window."""
        self.send("POST", self.session + "/window", {"handle": window})

    def window(self):
        return self.send("GET", self.session + "/window")

    def close_window(self):
        self.send("DELETE", self.session + "/window")

    def run(self, script, *arguments):
        """The value of a function's body in the page. An element is a value too, for click() and for arguments."""
        return self.send("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector="body"):
        """What the page shows there; empty where there is no such element."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def click(self, element):
        """As a mouse does: what covers the element is in the way. An element that has left the page is an error."""
        self.send("POST", f"{self.session}/element/{next(iter(element.values()))}/click")

    def press(self, *keys):
        """Each key goes to the element that has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.send("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def console(self, levels=("SEVERE", "WARNING", "INFO", "DEBUG")):
        """What the browser reported since the last call. SEVERE: errors, and violations of the security policy."""
        told = self.send("POST", self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in told if entry["level"] in levels]

    def screenshot(self, file):
        pathlib.Path(file).write_bytes(base64.b64decode(self.send("GET", self.session + "/screenshot")))

    def processes(self):
        """The pids of the browser's processes."""
        group = str(os.getpgid(self.driver.pid))
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = stat.read_text().rsplit(")", 1)[1].split()
                if words[3] == group:  # its session
                    found.append(int(stat.parent.name))
        return found
