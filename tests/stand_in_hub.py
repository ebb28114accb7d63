"""A stand-in for the model hub, for engines whose HF_ENDPOINT points at it: refusals, and models that a test
gives.

    python tests/stand_in_hub.py PORT

It answers as huggingface.co does where a model cannot be had; the codes and headers are those that
huggingface_hub's `hf_raise_for_status` tells apart. It runs from the standard library alone, so that a pod
can run it from a ConfigMap.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GOOD_TOKEN = "hf_stand_in_good"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LIMITED_SECONDS = 167
LARGE = 10_000
INVALID = "Invalid credentials in Authorization header"
GATED = "Access to model org/gated is restricted"


def refusal(path: str, token: str | None) -> tuple[int, dict[str, str]]:
    """Status and headers. `org/gated` is there but not for everybody, every other repository is absent."""
    if token not in (None, GOOD_TOKEN):
        return 401, {"X-Error-Message": INVALID}
    if "org/gated" in path:
        text = f"{GATED} and you are not in the authorized list." if token else f"{GATED}. Please log in."
        return (403 if token else 401), {"X-Error-Code": "GatedRepo", "X-Error-Message": text}
    if "org/limited" in path:
        return 429, {"Retry-After": str(LIMITED_SECONDS), "X-Error-Message": "rate limit reached"}
    if "org/failing" in path:
        return 504, {}
    if "org/no-such-revision" in path:
        return 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id: v9"}
    if token:
        return 404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
    return 401, {"X-Error-Message": "Invalid username or password."}


class Hub(ThreadingHTTPServer):
    """Refuses every request but those for a file of `models`, and remembers what was asked."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, Handler)
        self.models: dict[str, Path] = {}
        """Repository -> directory with its files."""
        self.cuts = 0
        """So many transfers of a file's content are still to break off half-way."""
        self.asked: list[tuple[str, str, str]] = []
        """Method, path and Range of each request."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def answer(self) -> None:
        """Of either method."""
        self.server.asked.append((self.command, self.path, self.headers.get("Range") or ""))
        for name, directory in self.server.models.items():
            if self.path.startswith((f"/api/models/{name}", f"/{name}/resolve/")):
                self.serve_model(name, directory)
                return
        given = self.headers.get("Authorization")
        self.reply(*refusal(self.path, given.removeprefix("Bearer ") if given else None))

    do_GET = do_HEAD = answer  # noqa: N815 - http.server looks for these names

    def serve_model(self, name: str, directory: Path) -> None:
        """The hub's API for a model, as far as a download needs it."""
        files = sorted(path for path in directory.iterdir() if path.is_file())
        path = self.path.partition("?")[0]
        if path.startswith(f"/api/models/{name}/tree/"):
            tree = [{"type": "file", "path": p.name, "size": p.stat().st_size, "oid": p.name} for p in files]
            self.reply(200, {}, json.dumps(tree).encode())
        elif path.startswith("/api/models/"):
            siblings = [{"rfilename": p.name} for p in files]
            self.reply(200, {}, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())
        elif (file := directory / path.rsplit("/", 1)[-1]) in files:
            self.serve_file(file.read_bytes(), file.name)
        else:
            self.reply(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

    def serve_file(self, content: bytes, name: str) -> None:
        """All of it, or from where a range begins; cut off half-way where that is due."""
        span = self.headers.get("Range")
        start = int(span.removeprefix("bytes=").split("-")[0]) if span else 0
        headers = {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if span:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        cut = self.command == "GET" and self.server.cuts > 0 and len(content) > LARGE
        self.server.cuts -= cut
        rest = content[start:]
        self.reply(206 if span else 200, headers, rest, sent=len(rest) // 2 if cut else len(rest))

    def reply(self, status: int, headers: dict[str, str], body: bytes = b"", sent: int | None = None) -> None:
        """Send it; of the body `sent` bytes alone, then the connection ends."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:sent])
        self.close_connection = sent is not None and sent < len(body)


def serve(port: int, host: str = "127.0.0.1") -> Hub:
    """A hub that is bound and not yet serving; port 0 takes a free one."""
    return Hub((host, port))


if __name__ == "__main__":
    serve(int(sys.argv[1]), "0.0.0.0").serve_forever()
