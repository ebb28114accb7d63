"""A stand-in for the model hub, for engines whose HF_ENDPOINT points at it: it has no models, only refusals.

    python tests/stand_in_hub.py PORT

It answers as huggingface.co does where a model cannot be had; the codes and headers are those that
huggingface_hub's `hf_raise_for_status` tells apart. It runs from the standard library alone, so that a pod
can run it from a ConfigMap.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD_TOKEN = "hf_stand_in_good"
INVALID = "Invalid credentials in Authorization header"
GATED = "Access to model org/gated is restricted"


def refusal(path: str, token: str | None) -> tuple[int, dict[str, str]]:
    """Status and headers. `org/gated` is there but not for everybody, every other repository is absent."""
    if token not in (None, GOOD_TOKEN):
        return 401, {"X-Error-Message": INVALID}
    if "org/gated" in path:
        text = f"{GATED} and you are not in the authorized list." if token else f"{GATED}. Please log in."
        return (403 if token else 401), {"X-Error-Code": "GatedRepo", "X-Error-Message": text}
    if "org/no-such-revision" in path:
        return 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id: v9"}
    if token:
        return 404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
    return 401, {"X-Error-Message": "Invalid username or password."}


class Hub(BaseHTTPRequestHandler):
    """Refuses every request, and says so in its log."""

    def answer(self) -> None:
        """Of either method."""
        given = self.headers.get("Authorization")
        status, headers = refusal(self.path, given.removeprefix("Bearer ") if given else None)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    do_GET = do_HEAD = answer  # noqa: N815 - http.server looks for these names


def serve(port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """A hub that is bound and not yet serving; port 0 takes a free one."""
    return ThreadingHTTPServer((host, port), Hub)


if __name__ == "__main__":
    serve(int(sys.argv[1]), "0.0.0.0").serve_forever()
