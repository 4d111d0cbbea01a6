"""Requests and answers as text: what is the same with and without asyncio."""

from __future__ import annotations

import functools
import json
import os
import ssl
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote

import httpx2
from pydantic import TypeAdapter, ValidationError

from weir._model import Model
from weir.errors import Failed, Unavailable, WeirError

T = TypeVar("T")
Body = Model | Mapping[str, Any] | None
Query = Mapping[str, str | int | bool | None] | None

#: Seconds that the node may take to accept a connection, or to send the next part of an answer.
TIMEOUT = 30.0
#: Seconds without a sign of life after which an answer that is followed is over: the node gives
#: one every 10 s.
SILENCE = 40.0
#: The node closes a connection that has no request for 5 s, so that none as old is used again.
LIMITS = httpx2.Limits(keepalive_expiry=4.0)
#: Most characters of one element of a growing answer.
ELEMENT_LIMIT = 1 << 20


class Place:
    """Where a node is, and how it is reached."""

    def __init__(
        self,
        node: str | os.PathLike[str] | None,
        cert: str | os.PathLike[str] | None,
        key: str | os.PathLike[str] | None,
        ca: str | os.PathLike[str] | None,
    ) -> None:
        run = os.environ.get("WEIR_RUN", "/run/weir")
        self.name = os.fspath(node or os.environ.get("WEIR_NODE") or f"{run}/node.sock")
        self.socket: str | None = None
        self.tls: ssl.SSLContext | bool = False
        self.url = "http://node"
        if self.name.startswith("https://"):
            self.url = self.name.rstrip("/")
            self.tls = _context(
                cert or os.environ.get("WEIR_CERT"),
                key or os.environ.get("WEIR_KEY"),
                ca or os.environ.get("WEIR_CA"),
            )
        elif "://" in self.name:
            raise ValueError(f"{self.name} is no node: use https://HOST:PORT, or a socket's path")
        else:
            self.socket = self.name

    def broken(self, error: httpx2.HTTPError) -> WeirError:
        """What a failure of the connection means."""
        if isinstance(error, httpx2.ConnectError):
            if self.socket:
                return Unavailable(f"no node runs at {self.name}: `weir node` starts one ({error})")
            return Unavailable(f"the node at {self.name} cannot be reached: {error}")
        if isinstance(error, httpx2.TimeoutException):
            return Unavailable(f"the node at {self.name} did not answer within {TIMEOUT:.0f} s")
        return Unavailable(
            f"the node at {self.name} ended before it answered ({error}): "
            "the request may have been carried out"
        )


def _context(
    cert: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    ca: str | os.PathLike[str] | None,
) -> ssl.SSLContext:
    if cert is None:
        raise ValueError("a node on the network asks for a certificate: give cert, key and ca")
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    return context


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def encoded(body: Body) -> bytes | None:
    """The text of a body."""
    if body is None:
        return None
    if isinstance(body, Model):
        return body.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return json.dumps(body).encode()


def asked(query: Query) -> dict[str, str | int | bool]:
    """The parameters that are given."""
    return {key: value for key, value in (query or {}).items() if value is not None}


@functools.cache
def _adapter(answer: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(type[Any], answer))


def confused(error: Exception) -> WeirError:
    text = " ".join(str(error).split())
    return Failed(f"the node's answer cannot be parsed: {text}: is it of the same version?")


def decoded(answer: type[T], text: bytes) -> T:
    """An answer. A newer node's may have fields that are not known here."""
    try:
        return cast(T, _adapter(cast(Hashable, answer)).validate_json(text, extra="ignore"))
    except ValidationError as error:
        raise confused(error) from None


def refusal(status: int, text: bytes) -> WeirError:
    """What the node refused, in its words."""
    try:
        error = json.loads(text)
        return WeirError.of(str(error["kind"]), str(error["error"]), error.get("field"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Failed(f"the node answered {status} without a reason")


class Elements:
    """The elements of a list, as its text arrives."""

    def __init__(self, element: type[T]) -> None:
        self._adapter = _adapter(cast(Hashable, element))
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._begun = False
        self._ended = False

    def add(self, piece: str) -> list[Any]:
        """The elements that are complete with the next piece."""
        self._text += piece
        elements = []
        while self._text:
            self._text = self._text.lstrip(" \r\n\t,")
            if self._ended and self._text:
                raise confused(ValueError("something follows the list"))
            if not self._begun and self._text:
                if not self._text.startswith("["):
                    raise confused(ValueError("it is no list"))
                self._begun, self._text = True, self._text[1:]
            elif self._text.startswith("]"):
                self._ended, self._text = True, self._text[1:]
            elif self._text and not self._text.startswith("{"):
                raise confused(ValueError("an element is no object"))
            else:
                try:
                    element, end = self._decoder.raw_decode(self._text)
                except ValueError:
                    if len(self._text) > ELEMENT_LIMIT:
                        raise confused(ValueError("an element is too long")) from None
                    break
                self._text = self._text[end:]
                try:
                    elements.append(self._adapter.validate_python(element, extra="ignore"))
                except ValidationError as error:
                    raise confused(error) from None
        return elements

    def end(self, place: Place) -> None:
        """The text has ended."""
        if not self._ended:
            raise Unavailable(f"the node at {place.name} ended before its answer did")
