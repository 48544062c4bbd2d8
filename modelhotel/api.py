"""The admin API: mounts every app's router."""

from ninja import NinjaAPI

api = NinjaAPI(title="Model Hotel", version="1", docs_url="/docs", urls_namespace="api")
