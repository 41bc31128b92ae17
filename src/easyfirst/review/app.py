"""The page's files and the questions that it asks, as a Starlette application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from easyfirst.review.session import ChangedError, ReviewSession, View
from easyfirst.tables.errors import OutputError

if TYPE_CHECKING:
    from easyfirst.review.neighbours import Neighbours

FILES = {
    "": ("review.html", "text/html; charset=utf-8"),
    "review.css": ("review.css", "text/css; charset=utf-8"),
    "review.js": ("review.js", "text/javascript; charset=utf-8"),
    "view.js": ("view.js", "text/javascript; charset=utf-8"),
}
MOST_ROWS = 200  # of one page


@dataclass(frozen=True)
class Review:
    """What a page shows.

    Parameters
    ----------
    session
        The rows and decisions.
    neighbours
        Finds good rows to show beside a suspicious one.
    details
        What the heading says: file, target, where decisions are saved.
    end
        Ends the server.
    """

    session: ReviewSession
    neighbours: Neighbours
    details: dict[str, str]
    end: Callable[[], None]

    def application(self) -> Starlette:
        """Return the application, without the guard before it."""
        routes = [Route(f"/{name}", _file(*file)) for name, file in FILES.items()]
        routes += [
            Route("/api/state", self.state),
            Route("/api/rows", self.rows),
            Route("/api/row", self.row),
            Route("/api/decide", self.decide, methods=["POST"]),
            Route("/api/undo", self.undo, methods=["POST"]),
            Route("/api/end", self.finish, methods=["POST"]),
        ]
        handlers: Any = {
            ValueError: _refused(400),
            KeyError: _refused(404),
            ChangedError: _refused(409),
            OutputError: _refused(507),
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    async def state(self, request: Request) -> Response:
        """Say what is reviewed and how far it is."""
        del request
        rows = self.session.rows
        has_fixes = any(rows.has_fix(index) for index in range(len(rows)))
        return JSONResponse({"details": self.details, "has_fixes": has_fixes, **self._progress()})

    async def rows(self, request: Request) -> Response:
        """List one page of a view."""
        asked = request.query_params
        start, count = int(asked.get("start", 0)), int(asked.get("count", 50))
        if start < 0 or not 0 < count <= MOST_ROWS:
            raise ValueError(f"start {start} and count {count} are not a valid range of rows")
        chosen = self.session.select(_view(asked))
        shown = self.session.shown(chosen[start : start + count])
        undecided = self.session.undecided(chosen)
        return JSONResponse(
            {"rows": shown, "total": len(chosen), "open": undecided, "start": start}
        )

    async def row(self, request: Request) -> Response:
        """Show one row, its values, and the good rows nearest to it."""
        index = self.session.index_of(int(request.query_params["place"]))
        beside = await run_in_threadpool(self.neighbours.beside, index)
        return JSONResponse({**self.session.shown([index])[0], **beside})

    async def decide(self, request: Request) -> Response:
        """Save a decision about one row, or about all rows of a view."""
        asked = await _body(request)
        kind = str(asked.get("decision"))
        if "place" in asked:
            count = self.session.decide([self.session.index_of(int(asked["place"]))], kind)
        else:
            count = self.session.decide_view(_view(asked), kind, int(asked["expected"]))
        return JSONResponse({"decided": count, **self._progress()})

    async def undo(self, request: Request) -> Response:
        """Take back the last decision."""
        del request
        places = self.session.undo()
        first = places[0] if places else None
        return JSONResponse({"undone": len(places), "place": first, **self._progress()})

    async def finish(self, request: Request) -> Response:
        """End the review when the answer is out."""
        del request
        return JSONResponse(self._progress(), background=BackgroundTask(self.end))

    def _progress(self) -> dict[str, Any]:
        return {"counts": self.session.counts(), "groups": self.session.group_counts()}


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    content = resources.files("easyfirst.review").joinpath("page", name).read_bytes()

    def answer(request: Request) -> Response:
        del request
        return Response(content, media_type=kind)

    return answer


def _view(asked: Any) -> View:
    return View(
        state=str(asked.get("state", "all")),
        group=str(asked.get("group", "")),
        search=str(asked.get("search", "")),
        sort=str(asked.get("sort", "worst")),
        descending=str(asked.get("descending", "")).lower() in ("1", "true"),
    )


async def _body(request: Request) -> dict[str, Any]:
    found = await request.json()
    if not isinstance(found, dict):
        raise ValueError("an object is expected")
    return found


def _refused(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        del request
        message = error.args[0] if error.args else str(error)
        return JSONResponse({"error": str(message)}, status)

    return answer
