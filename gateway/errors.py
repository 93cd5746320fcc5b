"""What the gateway answers when it does not forward: OpenAI's error shape, and the tree of errors."""

from __future__ import annotations

import json


class GatewayError(Exception):
    """Base of all answers that are not a replica's.

    * GatewayError
      * BadRequest        400  the request cannot be read
      * BadKey            401  no key, or one that is not valid
      * UnknownModel      404  no such model for this key: absent and forbidden look the same
      * UnknownPath       404
      * WrongMethod       405
      * TooLarge          413
      * LimitReached      429  a limit of the key
      * WaitingRoomFull   429  too many wait for this service already
      * ReplicaFailed     502  the replica broke off
      * NothingCameUp     503  no replica answered in time, or the service has failed
      * TookTooLong       504  the request timeout
    """

    status = 500
    kind = "api_error"
    code: str | None = None

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        """Return the answer's body."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the answer's headers, without its length."""
        headers = [(b"content-type", b"application/json")]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", str(self.retry_after_s).encode()))
        return headers


class BadRequest(GatewayError):
    status, kind = 400, "invalid_request_error"


class BadKey(GatewayError):
    status, kind, code = 401, "invalid_request_error", "invalid_api_key"


class UnknownModel(GatewayError):
    status, kind, code = 404, "invalid_request_error", "model_not_found"


class UnknownPath(GatewayError):
    status, kind, code = 404, "invalid_request_error", "unknown_url"


class WrongMethod(GatewayError):
    status, kind, code = 405, "invalid_request_error", "method_not_allowed"


class TooLarge(GatewayError):
    status, kind, code = 413, "invalid_request_error", "request_too_large"


class LimitReached(GatewayError):
    status, kind, code = 429, "rate_limit_error", "rate_limit_exceeded"


class BudgetSpent(LimitReached):
    kind, code = "insufficient_quota", "insufficient_quota"


class WaitingRoomFull(GatewayError):
    status, kind, code = 429, "rate_limit_error", "waiting_room_full"


class ReplicaFailed(GatewayError):
    status, kind, code = 502, "api_error", "replica_failed"


class NothingCameUp(GatewayError):
    status, kind, code = 503, "api_error", "service_unavailable"


class TookTooLong(GatewayError):
    status, kind, code = 504, "api_error", "request_timeout"
