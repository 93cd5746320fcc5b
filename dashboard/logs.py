"""How log lines look: one JSON object a line, for people, `up` and log collectors alike.

A line that a request caused has its ``request_id``, one of a background task its ``task_id``.
"""

from __future__ import annotations

from typing import Any

import structlog


def log_settings(*, level: str) -> dict[str, Any]:
    """Return Django's LOGGING: everything to standard error as JSON lines."""
    before = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": before,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.format_exc_info,
                    structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=False),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Celery says "task received" and "task succeeded" at INFO for each tick.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.worker.request": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
            # uvicorn sets up handlers of its own before it imports the application.
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.error": {"handlers": [], "propagate": True},
            "uvicorn.access": {"handlers": [], "propagate": True, "level": "WARNING"},
            # Django's own handler prints a second, unstructured copy.
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            # A wrong address is the reader's affair; failures of the server are errors.
            "django.request": {"level": "ERROR"},
        },
    }
