"""What the node did not do, as exceptions: one for each kind of the API's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from weir import models

__all__ = [
    "Exists",
    "Failed",
    "Forbidden",
    "InUse",
    "Invalid",
    "Late",
    "NotAllowed",
    "NotFound",
    "NotJson",
    "Refused",
    "TooLarge",
    "Unavailable",
    "WeirError",
]


class WeirError(Exception):
    """The node did not do what was asked."""

    #: The API's word for errors of this kind.
    kind: str = ""
    #: What was wrong, where, and what would be right.
    sentence: str
    #: The field of the request that is wrong, if one is.
    field: str | None
    #: If guests were to be changed: what became of each.
    outcomes: Sequence[models.GuestOutcome]

    _kinds: ClassVar[dict[str, type[WeirError]]] = {}

    def __init_subclass__(cls) -> None:
        cls._kinds[cls.kind] = cls

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field
        self.outcomes = ()

    @staticmethod
    def of(kind: str, sentence: str, field: str | None = None) -> WeirError:
        """The exception of a kind; a WeirError for one that this package does not know."""
        error = WeirError._kinds.get(kind, WeirError)(sentence, field)
        error.kind = kind
        return error


class Invalid(WeirError):
    """The request itself is wrong."""

    kind = "invalid"


class Forbidden(WeirError):
    """The client may not do that."""

    kind = "forbidden"


class NotFound(WeirError):
    """Nothing has that name."""

    kind = "not-found"


class NotAllowed(WeirError):
    """The resource has no such method."""

    kind = "not-allowed"


class Late(WeirError):
    """The request's body came too slowly."""

    kind = "late"


class Exists(WeirError):
    """The name or address is taken."""

    kind = "exists"


class InUse(WeirError):
    """Something else uses it."""

    kind = "in-use"


class TooLarge(WeirError):
    """The request's body is too long."""

    kind = "too-large"


class NotJson(WeirError):
    """The request's body has another content type than JSON."""

    kind = "not-json"


class Refused(WeirError):
    """The host, the switch or the guest refused."""

    kind = "refused"


class Unavailable(WeirError):
    """The node or its switch is not running, or does not answer."""

    kind = "unavailable"


class Failed(WeirError):
    """The node failed; nothing was changed."""

    kind = "failed"
