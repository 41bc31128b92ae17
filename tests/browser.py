"""A real browser for tests: what a page logs, asks for and shows, in headless Chromium.

The browser is spoken to over a pipe (DevTools protocol), so no port is opened for that. All its
traffic, also to this machine unless a test serves pages there, is sent to a proxy here that answers
nothing and remembers what was asked for: a page cannot reach anything, and cannot try unnoticed.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The protocol wants descriptors 3 and 4.
LAUNCHER = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
PATIENCE = 600.0  # seconds for one answer of the browser, on a busy machine


def chromium_or_skip():
    """Return the browser's path, or skip the test that asks for it."""
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("needs chromium to open the report")
    return found


@dataclass
class Visit:
    """What happened while a page was open.

    `requests` are what the page asked the browser for, `sent` what came out of the browser.
    """

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


class SilentProxy:
    """Accepts every connection, notes the first line, and hangs up."""

    def __init__(self):
        self.asked = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE)
            heard = connection.recv(4096).partition(b"\r\n")[0].decode("latin1")
            if heard:
                self.asked.append(heard)

    def close(self):
        self._socket.close()


class Browser:
    """One headless Chromium with one page after the other."""

    def __init__(self, executable, profile, loopback=False):
        self.proxy = SilentProxy()
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        to_child, from_child = _moved_up(to_child), _moved_up(from_child)
        proxy = (
            f"--proxy-server=http://127.0.0.1:{self.proxy.port}",
            f"--proxy-bypass-list=<-loopback>{';127.0.0.1' if loopback else ''}",
        )
        launch = (sys.executable, "-c", LAUNCHER, str(to_child), str(from_child))
        self._process = subprocess.Popen(
            [*launch, executable, *FLAGS, *proxy, f"--user-data-dir={profile}"],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._number = 0
        self._buffer = b""
        self._session = None
        self._page = ""
        self.visit = Visit()

    def close(self):
        """End the browser that was started here, and no other."""
        try:
            self.ask("Browser.close")
        except (AssertionError, OSError):
            self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self.proxy.close()

    def open(self, url, width=1280, height=900):
        """Open a page in a new tab, wait until it has loaded, and return what happened."""
        self._session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")
        self.visit = Visit()
        self._page = url
        self.proxy.asked.clear()
        self.ask("Page.navigate", url=url)
        self._listen_until("Page.loadEventFired")
        return self.wait(0.5)  # for what a page does after it has loaded

    def wait(self, seconds):
        """Wait, and return what has happened since the page was opened."""
        deadline = time.monotonic() + seconds
        while self._next(deadline) is not None:
            pass
        self.visit.sent += [line for line in self.proxy.asked if _is_ours(line)]
        self.proxy.asked.clear()
        return self.visit

    def value(self, expression):
        """Return the value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression, seconds=PATIENCE):
        """Wait until a JavaScript expression holds in the page."""
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.wait(0.05)

    def press(self, key, shift=False):
        """Press one key, as a person does."""
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}.get(key)
        text = "\r" if key == "Enter" else key.upper() if shift else key if code is None else ""
        common = {
            "key": text if code is None else key,
            "windowsVirtualKeyCode": code or ord(key.upper()),
            "modifiers": 8 if shift else 0,
        }
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path, whole=False):
        """Save what the page looks like."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def ask(self, method, **parameters):
        """Send one command and return its answer; events on the way are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            event = self._next(deadline)
            assert event is not None, f"chromium did not answer {method}"
            if event.get("id") == self._number:
                assert "error" not in event, f"{method}: {event['error']}"
                return event["result"]

    def _listen_until(self, method):
        deadline = time.monotonic() + PATIENCE
        while True:
            event = self._next(deadline)
            assert event is not None, f"chromium never said {method}"
            if event.get("method") == method:
                return

    def _next(self, deadline):
        """Return the next message and note what it says; None when time is up."""
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                return None
            part = os.read(self._in, 1 << 16)
            assert part, "chromium ended"
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        event = json.loads(raw)
        if event.get("sessionId") == self._session:
            self._note(event)
        return event

    def _note(self, event):
        parameters = event.get("params", {})
        match event.get("method"):
            case "Log.entryAdded":
                self.visit.console.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled":
                said = [str(part.get("value")) for part in parameters["args"]]
                self.visit.console.append(" ".join(said))
            case "Runtime.exceptionThrown":
                self.visit.console.append(parameters["exceptionDetails"]["text"])
            case "Page.javascriptDialogOpening":
                self.visit.dialogs.append(parameters["message"])
                self.ask("Page.handleJavaScriptDialog", accept=True)
            case "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if url != self._page and not url.startswith("data:"):
                    self.visit.requests.append(url)


def _moved_up(descriptor):
    """Return the descriptor under a number that is in nobody's way."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 50)
    os.close(descriptor)
    return moved


def _is_ours(request):
    """Return whether the page asked for it: the browser runs errands to its makers' hosts."""
    makers = ("google.com", "googleapis.com", "gvt1.com", "duckduckgo.com")
    return not any(host in request for host in makers)
