"""`/api/v1/`: Swagger UI over the OpenAPI document. Its files come from an installed package, not from another host."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

_CONTENT_SECURITY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)
_FILES_PACKAGE = "fastapi_offline"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CNS REST API</title>
<link rel="icon" href="explorer/favicon.png">
<link rel="stylesheet" href="explorer/swagger-ui.css">
<style>
.swagger-ui .info .title small, .swagger-ui .info .title small.version-stamp { background: #4d5763; }
.swagger-ui .info .link, .swagger-ui .info .link .url { color: #0a58ca; }
.swagger-ui .btn.authorize, .swagger-ui .btn.authorize span { color: #146c43; }
.swagger-ui .opblock .opblock-summary-method { background: #0a58ca !important; }
.swagger-ui .opblock-post .opblock-summary-method { background: #146c43 !important; }
.swagger-ui .opblock-patch .opblock-summary-method, .swagger-ui .opblock-put .opblock-summary-method {
  background: #7a4d00 !important; }
.swagger-ui .opblock-delete .opblock-summary-method {
  background: #b02a37 !important; }
.swagger-ui button[class*=expand-deep], .swagger-ui .parameter__in, .swagger-ui .prop-format { color: #4d5763; }
.swagger-ui .btn.cancel { color: #b02a37; }
.swagger-ui .btn.execute { background: #0a58ca; }
</style>
</head>
<body>
<div id="swagger-ui"></div>
<script src="explorer/swagger-ui-bundle.js"></script>
<script src="start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, docExpansion: "list", displayRequestDuration: true,
  validatorUrl: null, onComplete: () => document.querySelector("#servers").setAttribute("aria-label", "Server"),
});
"""


def add_explorer(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def explorer() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers={"content-security-policy": _CONTENT_SECURITY})

    @app.get("/start.js", include_in_schema=False)
    async def start() -> HTMLResponse:
        return HTMLResponse(_START, media_type="text/javascript")

    spec = find_spec(_FILES_PACKAGE)
    if spec is not None and spec.origin is not None:
        app.mount("/explorer", StaticFiles(directory=Path(spec.origin).parent / "static"), name="explorer")
