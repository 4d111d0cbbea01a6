"""Counters as rates."""

from __future__ import annotations

from dataclasses import dataclass

from weir import models


@dataclass(frozen=True, slots=True)
class Rate:
    """What a port received and sent, a second, between two looks at its counters.

    "Received" is from the port's own point of view, as in `weir vnic stat`.
    """

    #: When the counters were looked at: seconds since 1970.
    time: float
    #: Seconds since the look before.
    seconds: float
    #: The interface or VNIC.
    name: str
    #: Its link.
    link: str
    rx_frames: float
    rx_bytes: float
    tx_frames: float
    tx_bytes: float
    #: Frames dropped, of all reasons.
    dropped: float


def rate(before: models.PortStats, now: models.PortStats, time: float, seconds: float) -> Rate:
    """The rates between two looks. A switch that was replaced counts from 0."""

    def each(old: int, new: int) -> float:
        return (new - old if new >= old else new) / seconds

    return Rate(
        time=time,
        seconds=seconds,
        name=now.name,
        link=now.link,
        rx_frames=each(before.rx_frames, now.rx_frames),
        rx_bytes=each(before.rx_bytes, now.rx_bytes),
        tx_frames=each(before.tx_frames, now.tx_frames),
        tx_bytes=each(before.tx_bytes, now.tx_bytes),
        dropped=each(sum(before.drops.values()), sum(now.drops.values())),
    )
