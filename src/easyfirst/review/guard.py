"""What a request must bring to be heard: this machine's address, the token, and our own page.

The address holds a secret, so that no other user of the machine can look. The host is checked,
because a page from elsewhere can give its own name this machine's address. The origin is checked,
because a page from elsewhere can send forms here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 1 << 20
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Lets a request through to the page if it is one of the page's own.

    Parameters
    ----------
    app
        What answers.
    port
        Where the server listens.
    """

    def __init__(self, app: App, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.last_heard = time.monotonic()
        self._app = app
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await PlainTextResponse(refused[1], refused[0])(scope, receive, send_with_headers)
            return
        self.last_heard = time.monotonic()
        inner = {**scope, "path": scope["path"][len(self.token) + 1 :]}
        await self._app(inner, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason if the request is none of the page's own."""
        headers = {
            name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "This server answers to 127.0.0.1 and localhost alone.\n"
        _, first, *rest = scope["path"].split("/")
        if not rest or not secrets.compare_digest(first.encode(), self.token.encode()):
            return 404, "Use the whole address that 'easyfirst review' printed.\n"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Another site cannot use this page.\n"
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("origin") != f"http://{host}":
            return 403, "Another site cannot use this page.\n"
        if headers.get("content-type") != "application/json":
            return 415, "The body must be JSON.\n"
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, "The body is too large, or does not say its length.\n"
        return None
