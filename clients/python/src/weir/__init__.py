"""Weir's client: network functions as tiny virtual machines, by the API of a node.

>>> import weir
>>> node = weir.Client()
>>> node.create_guest(weir.GuestObject(name="fw", config=text, interfaces={"inside": "lan"}))
>>> node.read("fw", "web.count")
"""

from weir import errors, models
from weir._async.client import AsyncClient
from weir._sync.client import Client
from weir.errors import *  # noqa: F403
from weir.models import *  # noqa: F403
from weir.rates import Rate

__all__ = ["AsyncClient", "Client", "Rate"]
__all__ += errors.__all__
__all__ += models.__all__
