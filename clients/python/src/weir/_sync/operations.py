# Written by generate.py: change that, or what it reads.

"""The operations of the API, a method each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

from weir import models
from weir._wire import Body, Query, segment

T = TypeVar("T")


class Operations(ABC):
    """The operations of the API, a method each."""

    @abstractmethod
    def _call(
        self, answer: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> T: ...

    @abstractmethod
    def _do(self, method: str, path: str, *, body: Body = None, query: Query = None) -> None: ...

    @abstractmethod
    def _grow(
        self, element: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> Iterator[T]: ...

    @abstractmethod
    def _follow(
        self, element: type[T], path: str, *, query: Query = None, last: int | None
    ) -> Iterator[T]: ...

    def list_applications(self, *, name: str | None = None) -> list[models.ApplicationObject]:
        """Lists applications."""
        return self._call(
            list[models.ApplicationObject], "GET", "/v1/applications", query={"name": name}
        )

    def admit_application(self, body: models.Admission) -> models.Admitted:
        """Admits a program as an application, whose sockets a network stack module serves."""
        return self._call(models.Admitted, "POST", "/v1/applications", body=body)

    def delete_application(self, name: str) -> None:
        """Removes an application. Its sockets are closed. A program that the node runs
        ends, by SIGTERM and after 10 s by SIGKILL; other programs go on without
        sockets.
        """
        return self._do("DELETE", f"/v1/applications/{segment(name)}")

    def show_application(self, name: str) -> models.ApplicationObject:
        """Shows an application."""
        return self._call(models.ApplicationObject, "GET", f"/v1/applications/{segment(name)}")

    def patch_application(self, name: str, body: dict[str, Any]) -> models.ApplicationObject:
        """Changes fields of an application (JSON merge patch); null resets a field. With
        another `nsm`, new sockets go there; present ones stay where they are.
        `properties` and `restart` can change, too.
        """
        return self._call(
            models.ApplicationObject, "PATCH", f"/v1/applications/{segment(name)}", body=body
        )

    def put_application(
        self, name: str, body: models.ApplicationObject
    ) -> models.ApplicationObject:
        """Changes an application to match the body. With another `nsm`, new sockets go
        there; present ones stay where they are. `properties` and `restart` can change,
        too.
        """
        return self._call(
            models.ApplicationObject, "PUT", f"/v1/applications/{segment(name)}", body=body
        )

    def list_sockets(self, name: str) -> list[models.Socket]:
        """Lists the sockets of an application."""
        return self._call(list[models.Socket], "GET", f"/v1/applications/{segment(name)}/sockets")

    def trace_sockets(self, name: str, *, after: int | None = None) -> models.SocketTrace:
        """Shows what the sockets of an application do: the records behind one. The first
        request begins the trace, which ends after 10 s without a request.
        """
        return self._call(
            models.SocketTrace,
            "GET",
            f"/v1/applications/{segment(name)}/trace",
            query={"after": after},
        )

    def list_crashes(self, *, name: str | None = None) -> list[models.CrashReport]:
        """Lists the crash reports of guests that the node keeps, oldest first."""
        return self._call(list[models.CrashReport], "GET", "/v1/crashes", query={"name": name})

    def remove_crashes(self, name: str) -> None:
        """Removes a crash report by its number, or those of guests by a name or a pattern."""
        return self._do("DELETE", f"/v1/crashes/{segment(name)}")

    def show_crash(self, name: str) -> models.CrashReport:
        """Shows a crash report, by its number or as the last one of a guest."""
        return self._call(models.CrashReport, "GET", f"/v1/crashes/{segment(name)}")

    def list_events(
        self, *, name: str | None = None, since: str | None = None
    ) -> list[models.Event]:
        """Lists what happened: the events that the node keeps."""
        return self._call(
            list[models.Event], "GET", "/v1/events", query={"name": name, "since": since}
        )

    def follow_events(
        self, *, name: str | None = None, since: str | None = None, last: int | None = None
    ) -> Iterator[models.Event]:
        """Lists what happened: the events that the node keeps. Goes on with those to come.
        After a break, `last` is the last one's number.
        """
        return self._follow(
            models.Event, "/v1/events", query={"name": name, "since": since}, last=last
        )

    def list_flow_stats(self) -> list[models.FlowStats]:
        """Shows the counters of all flows."""
        return self._call(list[models.FlowStats], "GET", "/v1/flow-stats")

    def show_flow_stats(self, name: str) -> models.FlowStats:
        """Shows the counters of one flow."""
        return self._call(models.FlowStats, "GET", f"/v1/flow-stats/{segment(name)}")

    def list_flows(self, *, name: str | None = None) -> list[models.FlowObject]:
        """Lists flows."""
        return self._call(list[models.FlowObject], "GET", "/v1/flows", query={"name": name})

    def create_flow(self, body: models.FlowObject) -> models.FlowObject:
        """Creates a flow. On a VNIC that is down, the flow waits until it is up."""
        return self._call(models.FlowObject, "POST", "/v1/flows", body=body)

    def delete_flow(self, name: str) -> None:
        """Removes a flow."""
        return self._do("DELETE", f"/v1/flows/{segment(name)}")

    def show_flow(self, name: str) -> models.FlowObject:
        """Shows a flow."""
        return self._call(models.FlowObject, "GET", f"/v1/flows/{segment(name)}")

    def patch_flow(self, name: str, body: dict[str, Any]) -> models.FlowObject:
        """Changes fields of a flow (JSON merge patch); null resets a field. A changed flow
        is another one in the switch: it counts from 0, and its frames have no limit for
        a moment.
        """
        return self._call(models.FlowObject, "PATCH", f"/v1/flows/{segment(name)}", body=body)

    def put_flow(self, name: str, body: models.FlowObject) -> models.FlowObject:
        """Creates a flow, or changes it to match the body. A changed flow is another one
        in the switch: it counts from 0, and its frames have no limit for a moment.
        """
        return self._call(models.FlowObject, "PUT", f"/v1/flows/{segment(name)}", body=body)

    def act_on_guests(self, body: models.GuestAction) -> Iterator[models.GuestOutcome]:
        """Does something with many guests at once, by names and patterns; the answer has
        each guest as soon as it is done.
        """
        return self._grow(models.GuestOutcome, "POST", "/v1/guest-actions", body=body)

    def list_guest_logs(
        self, *, name: str | None = None, since: str | None = None, tail: int | None = None
    ) -> list[models.LogLine]:
        """Shows what guests printed: the lines that the node keeps of them, in the order
        in which it took them.
        """
        return self._call(
            list[models.LogLine],
            "GET",
            "/v1/guest-logs",
            query={"name": name, "since": since, "tail": tail},
        )

    def follow_guest_logs(
        self,
        *,
        name: str | None = None,
        since: str | None = None,
        tail: int | None = None,
        last: int | None = None,
    ) -> Iterator[models.LogLine]:
        """Shows what guests printed: the lines that the node keeps of them, in the order
        in which it took them. Goes on with those to come. After a break, `last` is the
        last one's number.
        """
        return self._follow(
            models.LogLine,
            "/v1/guest-logs",
            query={"name": name, "since": since, "tail": tail},
            last=last,
        )

    def restore_guest(self, body: models.Restore) -> models.GuestObject:
        """Restores a saved guest: into the stopped guest of its name, or as a new one."""
        return self._call(models.GuestObject, "POST", "/v1/guest-restore", body=body)

    def create_guests(self, body: models.GuestSeries) -> Iterator[models.GuestOutcome]:
        """Creates guests that differ by a number; the answer has each guest as soon as it
        runs.
        """
        return self._grow(models.GuestOutcome, "POST", "/v1/guest-series", body=body)

    def list_guests(self, *, name: str | None = None) -> list[models.GuestObject]:
        """Lists guests. The configurations are omitted."""
        return self._call(list[models.GuestObject], "GET", "/v1/guests", query={"name": name})

    def create_guest(self, body: models.GuestObject) -> models.GuestObject:
        """Creates a guest. The answer comes when the guest runs; a guest that does not
        start is removed.
        """
        return self._call(models.GuestObject, "POST", "/v1/guests", body=body)

    def delete_guest(self, name: str) -> None:
        """Removes a guest. The VNICs made for it are removed with it."""
        return self._do("DELETE", f"/v1/guests/{segment(name)}")

    def show_guest(self, name: str) -> models.GuestObject:
        """Shows a guest."""
        return self._call(models.GuestObject, "GET", f"/v1/guests/{segment(name)}")

    def patch_guest(self, name: str, body: dict[str, Any]) -> models.GuestObject:
        """Changes fields of a guest (JSON merge patch); null resets a field. `restart`,
        `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a
        hotswap that keeps state. Other changes of a guest that runs hold from its next
        start on, as `status.pending` says.
        """
        return self._call(models.GuestObject, "PATCH", f"/v1/guests/{segment(name)}", body=body)

    def put_guest(self, name: str, body: models.GuestObject) -> models.GuestObject:
        """Creates a guest, or changes it to match the body. `restart`, `health`, `cpu-max`
        and `memory-max` hold at once, and so does `config` by a hotswap that keeps
        state. Other changes of a guest that runs hold from its next start on, as
        `status.pending` says.
        """
        return self._call(models.GuestObject, "PUT", f"/v1/guests/{segment(name)}", body=body)

    def clone_guest(self, name: str, body: models.Clones) -> list[models.GuestOutcome]:
        """Makes copies of a guest, with its state and addresses of their own; the answer
        has each as soon as it runs.
        """
        return self._call(
            list[models.GuestOutcome], "POST", f"/v1/guests/{segment(name)}/clone", body=body
        )

    def uninstall_configuration(self, name: str, configuration: str) -> None:
        """Uninstalls a configuration of a guest; the others keep their state."""
        return self._do(
            "DELETE", f"/v1/guests/{segment(name)}/configurations/{segment(configuration)}"
        )

    def show_configuration(self, name: str, configuration: str) -> models.Configuration:
        """Shows a configuration that a guest runs beside its main one."""
        return self._call(
            models.Configuration,
            "GET",
            f"/v1/guests/{segment(name)}/configurations/{segment(configuration)}",
        )

    def install_configuration(
        self, name: str, configuration: str, body: models.Configuration
    ) -> models.GuestObject:
        """Installs or replaces another configuration of a guest; others keep their state."""
        return self._call(
            models.GuestObject,
            "PUT",
            f"/v1/guests/{segment(name)}/configurations/{segment(configuration)}",
            body=body,
        )

    def show_guest_log(
        self,
        name: str,
        *,
        run: bool | None = None,
        since: str | None = None,
        tail: int | None = None,
    ) -> list[models.LogLine]:
        """Shows what a guest printed: the lines that the node keeps of it."""
        return self._call(
            list[models.LogLine],
            "GET",
            f"/v1/guests/{segment(name)}/log",
            query={"run": run, "since": since, "tail": tail},
        )

    def follow_guest_log(
        self,
        name: str,
        *,
        run: bool | None = None,
        since: str | None = None,
        tail: int | None = None,
        last: int | None = None,
    ) -> Iterator[models.LogLine]:
        """Shows what a guest printed: the lines that the node keeps of it. Goes on with
        those to come. After a break, `last` is the last one's number.
        """
        return self._follow(
            models.LogLine,
            f"/v1/guests/{segment(name)}/log",
            query={"run": run, "since": since, "tail": tail},
            last=last,
        )

    def migrate_guest(self, name: str, body: models.Migrate) -> models.Migrated:
        """Moves a running guest to another node, with its state, addresses and frames."""
        return self._call(models.Migrated, "POST", f"/v1/guests/{segment(name)}/migrate", body=body)

    def read_handler(self, name: str, body: models.HandlerRead) -> models.HandlerValue:
        """Reads a handler of a guest."""
        return self._call(
            models.HandlerValue, "POST", f"/v1/guests/{segment(name)}/read", body=body
        )

    def rename_guest(self, name: str, body: models.Rename) -> models.GuestObject:
        """Gives a guest another name; its VNICs keep theirs."""
        return self._call(
            models.GuestObject, "POST", f"/v1/guests/{segment(name)}/rename", body=body
        )

    def save_guest(self, name: str, body: models.Save) -> models.Saved:
        """Saves a guest to a file of the node's host; it is stopped then, or goes on with
        `keep`.
        """
        return self._call(models.Saved, "POST", f"/v1/guests/{segment(name)}/save", body=body)

    def write_handler(self, name: str, body: models.HandlerWrite) -> models.HandlerValue:
        """Writes a handler of a guest; `hotconfig` replaces its configuration, which is
        kept.
        """
        return self._call(
            models.HandlerValue, "POST", f"/v1/guests/{segment(name)}/write", body=body
        )

    def list_lanes(self) -> list[models.LaneStats]:
        """Shows the counters of the switch's lanes."""
        return self._call(list[models.LaneStats], "GET", "/v1/lanes")

    def list_links(self, *, name: str | None = None) -> list[models.LinkObject]:
        """Lists links."""
        return self._call(list[models.LinkObject], "GET", "/v1/links", query={"name": name})

    def create_link(self, body: models.LinkObject) -> models.LinkObject:
        """Creates a link. The interface belongs to the switch until the link is removed."""
        return self._call(models.LinkObject, "POST", "/v1/links", body=body)

    def delete_link(self, name: str) -> None:
        """Removes a link. The interface is restored to its former state."""
        return self._do("DELETE", f"/v1/links/{segment(name)}")

    def show_link(self, name: str) -> models.LinkObject:
        """Shows a link."""
        return self._call(models.LinkObject, "GET", f"/v1/links/{segment(name)}")

    def patch_link(self, name: str, body: dict[str, Any]) -> models.LinkObject:
        """Changes fields of a link (JSON merge patch); null resets a field. Properties
        hold from the next frame on.
        """
        return self._call(models.LinkObject, "PATCH", f"/v1/links/{segment(name)}", body=body)

    def put_link(self, name: str, body: models.LinkObject) -> models.LinkObject:
        """Creates a link, or changes it to match the body."""
        return self._call(models.LinkObject, "PUT", f"/v1/links/{segment(name)}", body=body)

    def purge_node(self, body: models.Purge) -> None:
        """Removes all guests, VNICs, links, the switch and the state, and ends the node;
        `confirm` must be true.
        """
        return self._do("DELETE", "/v1/node", body=body)

    def show_node(self) -> models.NodeStatus:
        """Shows the node's version, processes and number of resources."""
        return self._call(models.NodeStatus, "GET", "/v1/node")

    def end_unknown(self) -> list[models.UnknownGuest]:
        """Ends the guests that run and of which no record is left; the answer lists them."""
        return self._call(list[models.UnknownGuest], "POST", "/v1/node/end-unknown")

    def forget_damaged(self) -> None:
        """Forgets the damaged records of the state."""
        return self._do("POST", "/v1/node/forget-damaged")

    def list_nsms(self, *, name: str | None = None) -> list[models.NsmObject]:
        """Lists network stack modules."""
        return self._call(list[models.NsmObject], "GET", "/v1/nsms", query={"name": name})

    def create_nsm(self, body: models.NsmObject) -> models.NsmObject:
        """Creates a network stack module. The answer comes when it serves; one that does
        not start is removed.
        """
        return self._call(models.NsmObject, "POST", "/v1/nsms", body=body)

    def delete_nsm(self, name: str) -> None:
        """Removes a network stack module. No application may use it."""
        return self._do("DELETE", f"/v1/nsms/{segment(name)}")

    def show_nsm(self, name: str) -> models.NsmObject:
        """Shows a network stack module."""
        return self._call(models.NsmObject, "GET", f"/v1/nsms/{segment(name)}")

    def patch_nsm(self, name: str, body: dict[str, Any]) -> models.NsmObject:
        """Changes fields of a network stack module (JSON merge patch); null resets a
        field. Its `properties` can change, at once, and its `cores`: it restarts, as if
        it had ended.
        """
        return self._call(models.NsmObject, "PATCH", f"/v1/nsms/{segment(name)}", body=body)

    def put_nsm(self, name: str, body: models.NsmObject) -> models.NsmObject:
        """Creates a network stack module, or changes it to match the body. Its
        `properties` can change, at once, and its `cores`: it restarts, as if it had
        ended.
        """
        return self._call(models.NsmObject, "PUT", f"/v1/nsms/{segment(name)}", body=body)

    def list_settled_flows(self, *, name: str | None = None) -> list[models.SettledFlow]:
        """Lists the flows of which guests said that they are settled, and for those that
        are not, why; with `name`, of these VNICs.
        """
        return self._call(
            list[models.SettledFlow], "GET", "/v1/settled-flows", query={"name": name}
        )

    def list_stats(self) -> list[models.PortStats]:
        """Shows the counters of all attached interfaces, VNICs and patches."""
        return self._call(list[models.PortStats], "GET", "/v1/stats")

    def show_stats(self, name: str) -> models.PortStats:
        """Shows the counters of one attached interface, VNIC or end of a patch."""
        return self._call(models.PortStats, "GET", f"/v1/stats/{segment(name)}")

    def show_lane_stats(self, name: str) -> list[models.PortStats]:
        """Shows the counters of one attached interface, VNIC or end of a patch, for each
        lane.
        """
        return self._call(list[models.PortStats], "GET", f"/v1/stats/{segment(name)}/lanes")

    def list_stubs(self, *, name: str | None = None) -> list[models.StubObject]:
        """Lists stubs."""
        return self._call(list[models.StubObject], "GET", "/v1/stubs", query={"name": name})

    def create_stub(self, body: models.StubObject) -> models.StubObject:
        """Creates a stub."""
        return self._call(models.StubObject, "POST", "/v1/stubs", body=body)

    def delete_stub(self, name: str) -> None:
        """Removes a stub. No VNIC may be on it."""
        return self._do("DELETE", f"/v1/stubs/{segment(name)}")

    def show_stub(self, name: str) -> models.StubObject:
        """Shows a stub."""
        return self._call(models.StubObject, "GET", f"/v1/stubs/{segment(name)}")

    def patch_stub(self, name: str, body: dict[str, Any]) -> models.StubObject:
        """Changes fields of a stub (JSON merge patch); null resets a field. The MTU of a
        stub cannot change.
        """
        return self._call(models.StubObject, "PATCH", f"/v1/stubs/{segment(name)}", body=body)

    def put_stub(self, name: str, body: models.StubObject) -> models.StubObject:
        """Creates a stub, or changes it to match the body. The MTU of a stub cannot
        change.
        """
        return self._call(models.StubObject, "PUT", f"/v1/stubs/{segment(name)}", body=body)

    def list_switches(self, *, name: str | None = None) -> list[models.SwitchFunctionObject]:
        """Lists the switches of all links."""
        return self._call(
            list[models.SwitchFunctionObject], "GET", "/v1/switches", query={"name": name}
        )

    def show_switch(self, name: str) -> models.SwitchFunctionObject:
        """Shows the switch of a link."""
        return self._call(models.SwitchFunctionObject, "GET", f"/v1/switches/{segment(name)}")

    def patch_switch(self, name: str, body: dict[str, Any]) -> models.SwitchFunctionObject:
        """Changes fields of the switch of a link (JSON merge patch); null resets a field."""
        return self._call(
            models.SwitchFunctionObject, "PATCH", f"/v1/switches/{segment(name)}", body=body
        )

    def put_switch(
        self, name: str, body: models.SwitchFunctionObject
    ) -> models.SwitchFunctionObject:
        """Changes the switch of a link to match the body."""
        return self._call(
            models.SwitchFunctionObject, "PUT", f"/v1/switches/{segment(name)}", body=body
        )

    def list_entries(self, name: str) -> list[models.Entry]:
        """Lists the entries of a link's flow table: made by command, or learned."""
        return self._call(list[models.Entry], "GET", f"/v1/switches/{segment(name)}/flows")

    def add_entry(self, name: str, body: models.Entry) -> models.Entry:
        """Sets the port of the link that a flow goes to."""
        return self._call(models.Entry, "POST", f"/v1/switches/{segment(name)}/flows", body=body)

    def remove_entry(self, name: str, flow: str) -> None:
        """Removes the entry, made by command, of a flow."""
        return self._do("DELETE", f"/v1/switches/{segment(name)}/flows/{segment(flow)}")

    def flush_macs(self, name: str) -> None:
        """Removes the addresses that the switch of a link has learned."""
        return self._do("POST", f"/v1/switches/{segment(name)}/flush")

    def list_macs(self, name: str) -> list[models.Address]:
        """Lists the Ethernet addresses that the switch of a link knows."""
        return self._call(list[models.Address], "GET", f"/v1/switches/{segment(name)}/macs")

    def list_vnics(self, *, name: str | None = None) -> list[models.VnicObject]:
        """Lists VNICs."""
        return self._call(list[models.VnicObject], "GET", "/v1/vnics", query={"name": name})

    def create_vnic(self, body: models.VnicObject) -> models.VnicObject:
        """Creates a VNIC. Its interface in a namespace or on the host is made with it. One
        with `guest` waits for a frame.
        """
        return self._call(models.VnicObject, "POST", "/v1/vnics", body=body)

    def delete_vnic(self, name: str) -> None:
        """Removes a VNIC. Its interface is removed with it, or the guest that it started;
        no other guest may have it.
        """
        return self._do("DELETE", f"/v1/vnics/{segment(name)}")

    def show_vnic(self, name: str) -> models.VnicObject:
        """Shows a VNIC."""
        return self._call(models.VnicObject, "GET", f"/v1/vnics/{segment(name)}")

    def patch_vnic(self, name: str, body: dict[str, Any]) -> models.VnicObject:
        """Changes fields of a VNIC (JSON merge patch); null resets a field. `properties`
        and `addresses` can change; properties hold from the next frame on.
        """
        return self._call(models.VnicObject, "PATCH", f"/v1/vnics/{segment(name)}", body=body)

    def put_vnic(self, name: str, body: models.VnicObject) -> models.VnicObject:
        """Creates a VNIC, or changes it to match the body. `properties` and `addresses`
        can change; properties hold from the next frame on.
        """
        return self._call(models.VnicObject, "PUT", f"/v1/vnics/{segment(name)}", body=body)

    def list_wires(self, *, name: str | None = None) -> list[models.WireObject]:
        """Lists wires. The configurations of guests are omitted."""
        return self._call(list[models.WireObject], "GET", "/v1/wires", query={"name": name})

    def delete_wire(self, name: str) -> None:
        """Removes a wire. All its parts are removed with it."""
        return self._do("DELETE", f"/v1/wires/{segment(name)}")

    def show_wire(self, name: str) -> models.WireObject:
        """Shows a wire."""
        return self._call(models.WireObject, "GET", f"/v1/wires/{segment(name)}")

    def apply_wire(self, name: str, body: models.WireObject) -> models.WireChange:
        """Makes a wire match the body, as a whole or not at all. The answer lists the
        steps.
        """
        return self._call(models.WireChange, "PUT", f"/v1/wires/{segment(name)}", body=body)

    def compare_wire(self, name: str, body: models.WireObject) -> models.WireChange:
        """Lists the steps that applying a wire would take."""
        return self._call(models.WireChange, "POST", f"/v1/wires/{segment(name)}/diff", body=body)
