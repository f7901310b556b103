"""Drives a Chromium without a window by its DevTools protocol, over a pipe: no socket, no package."""
import collections
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")


def find_browser():
    """Path of a browser that starts, or None. Ubuntu's package `chromium` is a stub that only says where to find one."""
    for name in NAMES:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return None


class Failure(Exception):
    """The browser refused a command, died, or took too long."""


class Browser:
    """One browser with one tab at a time. Messages are JSON that ends in a zero byte, on the descriptors 3 and 4."""

    def __init__(self, path, timeout_s=60):
        self.timeout_s = timeout_s
        self.folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        to_child, self.out = os.pipe()
        self.inward, from_child = os.pipe()

        def wire():
            # Above 4 first: one of the two may itself be 3 or 4.
            reads, writes = os.dup(to_child), os.dup(from_child)
            high = [os.dup(reads) for _ in range(4)][-1], [os.dup(writes) for _ in range(4)][-1]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
                    "--disable-sync", "--disable-default-apps", "--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb", "--disable-dev-shm-usage",
                    "--remote-debugging-pipe", "--user-data-dir=" + self.folder.name, "about:blank"]
        self.process = subprocess.Popen([path] + switches, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4),
                                        preexec_fn=wire)
        os.close(to_child)
        os.close(from_child)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
        except Failure:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inward)
        self.folder.cleanup()

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.inward], [], [], left)[0]:
                raise Failure("the browser does not answer")
            part = os.read(self.inward, 1 << 20)
            if not part:
                raise Failure("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """The result of one command; events that come meanwhile are kept in self.events."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        data = json.dumps(command).encode() + b"\0"
        try:
            while data:
                data = data[os.write(self.out, data):]
        except OSError as error:
            raise Failure(f"the browser ended: {error}") from error
        deadline = time.monotonic() + self.timeout_s
        while True:
            message = self._message(deadline)
            if message.get("id") == self.number:
                if "error" in message:
                    raise Failure(f"{method}: {message['error'].get('message')}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def wait_for(self, method):
        """The next event of that name; others stay in self.events."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            for event in self.events:
                if event["method"] == method:
                    self.events.remove(event)
                    return event["params"]
            message = self._message(deadline)
            if "method" in message:
                self.events.append(message)

    def open_tab(self):
        """A fresh tab, which every later call is about."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.events.clear()

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Failure("JavaScript: " + details.get("exception", {}).get("description", details.get("text", "")))
        return answer["result"].get("value")

    def resize(self, width, height=900):
        """The window's size, in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def settle(self):
        """Waits until the page is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))")

    def show(self, url, width, dark):
        """Loads the page at a width, in pixels, in light or dark."""
        self.resize(width)
        self.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if answer := self.call("Page.navigate", url=url).get("errorText"):
            raise Failure(f"{url}: {answer}")
        self.wait_for("Page.loadEventFired")
        self.settle()

    def press(self, key, code, text=""):
        """One key, down and up."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
