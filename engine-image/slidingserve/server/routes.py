"""Our endpoints beside vLLM's: state, plan and ready, as a plugin of `vllm.endpoint_plugins`.

State and ready are as open as vLLM's own /metrics and /health and hold nothing that /metrics does not; plan
asks for the API key like all else (see `keys`).
"""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from slidingserve.config import EngineConfig
from slidingserve.config_errors import cut
from slidingserve.core.snapshot import Snapshot
from slidingserve.policies import get as get_policy
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.model import LatencyModel
from slidingserve.predictor.solo import SoloTable
from slidingserve.server import frontend, logs
from slidingserve.server.drain import REASON
from slidingserve.server.frontend import FrontEnd
from slidingserve.server.runtime import Runtime
from slidingserve.server.state import plain

PREFIX = "/slidingserve/v1"
MAX_BODY = 1 << 20
PING_SECONDS = 2.0

router = APIRouter(prefix=PREFIX, tags=["SlidingServe"])


class EndpointPlugin:
    """What vLLM calls to attach routes and to hand over its engine client."""

    name = "slidingserve_routes"
    required_tasks = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes; those that are asked all the time leave no access lines."""
        app.include_router(router)
        logs.hush()

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Start this process's front end, and make the engine ready in the background."""
        runtime = Runtime.from_env()
        if engine_client is None or runtime is None:
            return
        from slidingserve.vllm_adapter.client import connect

        engine = connect(engine_client)
        front = FrontEnd(
            runtime,
            index=engine.index,
            expected=engine.expected,
            max_batch_tokens=engine.limits.max_batch_tokens,
            vllm_version=engine.vllm_version,
            solo=SoloTable.from_model(
                default_model(engine.limits.device), max_prompt=engine.limits.max_model_len
            ),
        )
        frontend.install(front)
        front.start()
        state.slidingserve_engine = engine
        engine.begin(runtime)


@router.get("/state")
async def get_state() -> JSONResponse:
    """Applied configuration, policy, predictor and counts by class, for the whole pod."""
    front = frontend.get()
    if front is None:
        return _error(503, "the front end has not started yet; try again")
    return JSONResponse(plain(await asyncio.to_thread(front.state)))


@router.get("/ready")
async def get_ready(request: Request) -> JSONResponse:
    """200 once a real token was generated since start, while the core answers in time and until a drain
    begins; else 503 with the reason."""
    engine = getattr(request.app.state, "slidingserve_engine", None)
    if engine is None:
        return JSONResponse({"ready": False, "reason": "the engine is starting"}, 503)
    front = frontend.get()
    draining = REASON if front is not None and front.drain.begun else ""
    reason = draining or engine.progress or await engine.ping(PING_SECONDS)
    return JSONResponse({"ready": not reason, "reason": reason}, 503 if reason else 200)


@router.post("/plan")
async def post_plan(request: Request) -> JSONResponse:
    """The plan that the live policy, alpha and predictor make of a recorded snapshot."""
    front = frontend.get()
    if front is None:
        return _error(503, "the front end has not started yet; try again")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            return _error(400, f"the body is longer than {MAX_BODY} bytes; send at most 1024 requests")
    try:
        document = json.loads(body)
        # With the model that the core published last, and here, so that no stranger can stall the core.
        published = next((core["model"] for core in front.cores if core.get("model")), None)
        return JSONResponse(plain(await asyncio.to_thread(plan_of, document, front.config, published)))
    except (ValueError, RecursionError) as error:
        return _error(400, cut(plain(str(error)), 500))


def plan_of(document: object, config: EngineConfig, published: Any) -> dict[str, Any]:
    """The plan of a recorded snapshot by these settings and this model. Raises ValueError with a sentence."""
    snapshot = Snapshot.from_json(document)
    model = LatencyModel.from_json(published) if published else default_model("cuda")
    plan = get_policy(config.scheduler.policy).plan(snapshot, model, config.policy_settings())
    head = {"revision": config.revision, "policy": config.scheduler.policy, "alpha": config.alpha}
    if plan is None:
        return {
            **head,
            "branch": "stock",
            "budget": snapshot.max_tokens,
            "predicted_s": None,
            "order": [],
            "tokens": {},
        }
    return {**head, **plan.to_json()}


def _error(status: int, message: str) -> JSONResponse:
    kind = {400: "BadRequestError"}.get(status, "ServiceUnavailableError")
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)
