"""A node's client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from time import monotonic
from time import time as seconds_since_1970
from types import TracebackType
from typing import TypeVar

import anyio
import httpx2

from weir import models
from weir._async.operations import AsyncOperations
from weir._wire import (
    LIMITS,
    SILENCE,
    TIMEOUT,
    Body,
    Elements,
    Place,
    Query,
    asked,
    decoded,
    encoded,
    refusal,
)
from weir.errors import WeirError
from weir.rates import Rate, rate

T = TypeVar("T")
Path = str | os.PathLike[str]


class AsyncClient(AsyncOperations):
    """A node: one host's links, VNICs, flows and guests.

    `node` is the path of its socket, or https://HOST:PORT; without it, WEIR_NODE or the socket in
    WEIR_RUN. A node on the network asks for a certificate: `cert` and `key` are the files of the
    client's own, `ca` is that of the authority that signed the node's (WEIR_CERT, WEIR_KEY,
    WEIR_CA).

    Nothing is sent until a method is called. A method raises a WeirError if the node does not do
    what is asked.
    """

    def __init__(
        self,
        node: Path | None = None,
        *,
        cert: Path | None = None,
        key: Path | None = None,
        ca: Path | None = None,
    ) -> None:
        self._place = Place(node, cert, key, ca)
        transport = httpx2.AsyncHTTPTransport(
            uds=self._place.socket, verify=self._place.tls, limits=LIMITS
        )
        self._http = httpx2.AsyncClient(
            transport=transport, base_url=self._place.url, timeout=TIMEOUT, trust_env=False
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def start(self, *guests: str) -> list[models.GuestOutcome]:
        """Starts guests, by names and patterns."""
        return await self._act(models.Action.start, guests)

    async def stop(self, *guests: str) -> list[models.GuestOutcome]:
        """Ends guests, which stay stopped until they are started."""
        return await self._act(models.Action.stop, guests)

    async def restart(self, *guests: str) -> list[models.GuestOutcome]:
        """Ends guests and starts them again."""
        return await self._act(models.Action.restart, guests)

    async def pause(self, *guests: str) -> list[models.GuestOutcome]:
        """Has guests stand still, with all of their state."""
        return await self._act(models.Action.pause, guests)

    async def resume(self, *guests: str) -> list[models.GuestOutcome]:
        """Has guests go on that were paused."""
        return await self._act(models.Action.resume, guests)

    async def destroy(self, *guests: str) -> list[models.GuestOutcome]:
        """Ends and removes guests."""
        return await self._act(models.Action.destroy, guests)

    async def read(self, guest: str, handler: str) -> str:
        """Reads a handler, `ELEMENT.HANDLER`, of a guest."""
        value = await self.read_handler(guest, models.HandlerRead(handler=handler))
        return value.value

    async def write(self, guest: str, handler: str, value: str = "") -> str:
        """Writes a handler of a guest."""
        body = models.HandlerWrite(handler=handler, value=value)
        return (await self.write_handler(guest, body)).value

    async def rates(self, *ports: str, interval: float = 1.0) -> AsyncIterator[list[Rate]]:
        """The rates of interfaces and VNICs, every `interval` seconds; without names, of all."""
        before = {port.name: port for port in await self._look(ports)}
        then = monotonic()
        while True:
            await anyio.sleep(interval)
            now = {port.name: port for port in await self._look(ports)}
            at = monotonic()
            yield [
                rate(before[name], port, seconds_since_1970(), at - then)
                for name, port in now.items()
                if name in before
            ]
            before, then = now, at

    async def guest_rates(
        self, guest: str, interval: float = 1.0
    ) -> AsyncIterator[dict[str, Rate]]:
        """The rates of a guest's VNICs, by the guest's names of its interfaces."""
        status = (await self.show_guest(guest)).status
        vnics = status.vnics if status else {}
        async for rates in self.rates(*vnics.values(), interval=interval):
            by_name = {rate.name: rate for rate in rates}
            yield {name: by_name[vnic] for name, vnic in vnics.items() if vnic in by_name}

    async def _look(self, ports: tuple[str, ...]) -> list[models.PortStats]:
        if not ports:
            return await self.list_stats()
        return [await self.show_stats(port) for port in ports]

    async def _act(
        self, action: models.Action, guests: tuple[str, ...]
    ) -> list[models.GuestOutcome]:
        """Acts on guests. If one fails, the others are still done, and its error is raised."""
        body = models.GuestAction(action=action, guests=list(guests))
        outcomes = [outcome async for outcome in self.act_on_guests(body)]
        for outcome in outcomes:
            if outcome.error:
                why = outcome.error
                error = WeirError.of(why.kind, why.error, why.field)
                error.outcomes = outcomes
                raise error
        return outcomes

    async def _call(
        self, answer: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> T:
        return decoded(answer, await self._exchange(method, path, body, query))

    async def _do(self, method: str, path: str, *, body: Body = None, query: Query = None) -> None:
        await self._exchange(method, path, body, query)

    async def _exchange(self, method: str, path: str, body: Body, query: Query) -> bytes:
        try:
            response = await self._http.send(self._request(method, path, body, query))
        except httpx2.HTTPError as error:
            raise self._place.broken(error) from error
        if not response.is_success:
            raise refusal(response.status_code, response.content)
        return response.content

    async def _grow(
        self, element: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> AsyncIterator[T]:
        elements = Elements(element)
        response = None
        try:
            request = self._request(method, path, body, query)
            response = await self._http.send(request, stream=True)
            if not response.is_success:
                raise refusal(response.status_code, await response.aread())
            async for piece in response.aiter_text():
                for each in elements.add(piece):
                    yield each
            elements.end(self._place)
        except httpx2.HTTPError as error:
            raise self._place.broken(error) from error
        finally:
            if response is not None:
                await response.aclose()

    async def _follow(
        self, element: type[T], path: str, *, query: Query = None, last: int | None
    ) -> AsyncIterator[T]:
        headers = {} if last is None else {"last-event-id": str(last)}
        timeout = httpx2.Timeout(TIMEOUT, read=SILENCE)
        try:
            async with self._http.sse(
                path, params=asked(query), headers=headers, timeout=timeout
            ) as events:
                response = events.response
                if not response.is_success:
                    raise refusal(response.status_code, await response.aread())
                async for event in events:
                    yield decoded(element, event.data.encode())
        except httpx2.HTTPError as error:
            raise self._place.broken(error) from error

    def _request(self, method: str, path: str, body: Body, query: Query) -> httpx2.Request:
        return self._http.build_request(
            method,
            path,
            content=encoded(body),
            params=asked(query),
            headers={"content-type": "application/json"},
        )
