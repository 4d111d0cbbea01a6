"""The client and a real node with real guests."""

import asyncio
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SINK, SOURCE, WEIR, Host

import weir


def guest(name: str, config: str = SINK) -> weir.GuestObject:
    return weir.GuestObject(name=name, config=config, interfaces={"lan": "lan"})


def test_a_guest_is_created_stopped_started_and_destroyed(node: weir.Client) -> None:
    made = node.create_guest(guest("fw"))
    assert made.status and made.status.state == weir.GuestState.running
    [outcome] = node.stop("fw")
    assert outcome.guest == "fw"
    assert outcome.status and outcome.status.state == weir.GuestState.stopped
    [outcome] = node.start("fw")
    assert outcome.status and outcome.status.pid != made.status.pid
    node.pause("fw")
    status = node.show_guest("fw").status
    assert status and status.state == weir.GuestState.paused
    node.resume("fw")
    node.restart("fw")
    assert node.rename_guest("fw", weir.Rename(name="nat")).name == "nat"
    node.destroy("nat")
    assert node.list_guests() == []


def test_many_guests_are_one_request_and_are_told_of_one_by_one(node: weir.Client) -> None:
    series = weir.GuestSeries(
        name="fw-{}", count=5, guest=weir.Guest(config=SINK, interfaces={"lan": "lan"})
    )
    told = node.create_guests(series)
    first = next(told)
    assert first.guest == "fw-1" and first.error is None
    # Other requests are served while the answer grows.
    assert node.show_guest("fw-1").name == "fw-1"
    assert [outcome.guest for outcome in told] == ["fw-2", "fw-3", "fw-4", "fw-5"]
    assert len(node.stop("fw-[1-3]")) == 3
    assert len(node.list_guests(name="fw-*")) == 5
    assert len(node.destroy("fw-*")) == 5


def test_if_one_guest_fails_the_others_are_done_and_its_error_is_raised(node: weir.Client) -> None:
    node.create_guest(guest("fw"))
    with pytest.raises(weir.NotFound) as caught:
        node.stop("nobody", "fw")
    assert caught.value.sentence.startswith("no guest ‘nobody’")
    assert {outcome.guest for outcome in caught.value.outcomes} == {"nobody", "fw"}
    status = node.show_guest("fw").status
    assert status and status.state == weir.GuestState.stopped


def test_an_iteration_that_ends_early_leaves_the_rest_undone(node: weir.Client) -> None:
    series = weir.GuestSeries(
        name="fw-{}", count=200, guest=weir.Guest(config=SINK, interfaces={"lan": "lan"})
    )
    told = node.create_guests(series)
    assert next(told).guest == "fw-1"
    assert isinstance(told, Iterator)
    del told
    before = -1
    while before != (now := len(node.list_guests())):
        before = now
        time.sleep(0.3)
    assert now < 200


def test_handlers_are_read_and_written_and_a_configuration_replaced(node: weir.Client) -> None:
    node.create_guest(guest("source", SOURCE))
    node.create_guest(guest("sink"))
    deadline = time.monotonic() + 10
    while int(node.read("sink", "seen.count")) == 0:
        assert time.monotonic() < deadline
    node.destroy("source")
    node.write("sink", "seen.reset_counts")
    assert node.read("sink", "seen.count").strip() == "0"
    config = SINK.replace("seen", "passed")
    patched = node.patch_guest("sink", {"config": config})
    assert patched.config == config
    assert node.read("sink", "passed.count").strip() == "0"
    # What is shown can be sent back.
    shown = node.show_guest("sink")
    assert node.put_guest("sink", shown).config == config


def test_rates_are_those_of_the_traffic(node: weir.Client) -> None:
    node.create_guest(guest("sink"))
    node.create_guest(guest("source", SOURCE))
    [vnic] = [
        vnic.name for vnic in node.list_vnics() if vnic.status and vnic.status.guest == "sink"
    ]
    looks = list(itertools.islice(node.guest_rates("sink", interval=0.5), 3))
    for look in looks:
        rate = look["lan"]
        assert rate.name == vnic and rate.link == "lan"
        assert 0.4 < rate.seconds < 5
        assert 0 < rate.rx_frames < 2000, rate
        assert rate.rx_bytes == pytest.approx(14 * rate.rx_frames) and rate.tx_frames == 0
    [[everybody]] = [list(itertools.islice(node.rates(interval=0.1), 1))]
    assert {rate.link for rate in everybody} == {"lan"} and len(everybody) == 2


def test_errors_are_exceptions_with_kind_sentence_and_field(node: weir.Client) -> None:
    with pytest.raises(weir.Invalid) as invalid:
        node.create_stub(weir.StubObject(name="small", mtu=9))
    assert invalid.value.kind == "invalid" and invalid.value.field == "mtu"
    assert "an MTU of 9 is invalid" in invalid.value.sentence
    with pytest.raises(weir.Exists):
        node.create_stub(weir.StubObject(name="lan"))
    node.create_vnic(weir.VnicObject(name="v0", link="lan"))
    with pytest.raises(weir.InUse):
        node.delete_stub("lan")
    node.delete_vnic("v0")
    # Any name is one segment of the path.
    for name in ["a/b", "../guests", "ä ?#%"]:
        with pytest.raises(weir.WeirError) as error:
            node.show_vnic(name)
        assert name in error.value.sentence


def test_fields_of_any_resource_have_names_of_python(node: weir.Client) -> None:
    node.patch_switch("lan", {"mac-limit": 7})
    switch = node.show_switch("lan")
    assert switch.mac_limit == 7
    switch.mac_limit = 8
    assert node.put_switch("lan", switch).mac_limit == 8
    attributes = weir.FlowAttributes(local_port=80, transport="tcp")
    flow = weir.FlowObject(name="web", link="lan", attributes=attributes)
    assert node.create_flow(flow).attributes.local_port == 80
    node.delete_flow("web")
    wire = weir.WireObject(name="w", wire="w", stub={"w-lan": weir.Stub(mtu=1400)})
    assert node.compare_wire("w", wire).steps
    assert node.list_wires() == []
    assert node.show_node().version


# A guest that prints a number every 0.05 s.
PRINTER = "s :: Script(set n 0, label again, wait 0.05, set n $(add $n 1), print $n, goto again);"


def test_logs_are_shown_and_followed_and_gone_on_with(node: weir.Client) -> None:
    for name in ["fw-1", "fw-2"]:
        node.create_guest(weir.GuestObject(name=name, config=PRINTER))
    first = list(itertools.islice(node.follow_guest_log("fw-1"), 3))
    assert [line.line for line in first] == ["1", "2", "3"]
    assert {line.guest for line in first} == {"fw-1"}
    [after] = itertools.islice(node.follow_guest_log("fw-1", last=first[1].number), 1)
    assert after == first[2]
    both = {line.guest for line in itertools.islice(node.follow_guest_logs(name="fw-*"), 20)}
    assert both == {"fw-1", "fw-2"}
    assert [line.line for line in node.show_guest_log("fw-2")][:2] == ["1", "2"]
    assert len(node.list_guest_logs(name="fw-1", tail=2)) == 2
    with pytest.raises(weir.NotFound):
        next(node.follow_guest_log("nobody"))


def test_events_are_followed_and_gone_on_with(node: weir.Client) -> None:
    node.create_guest(guest("seen-1"))
    told = node.follow_events(name="seen-*")
    first = next(told)
    assert (first.topic, first.event, first.name) == (
        weir.Topic.guest,
        weir.Happened.created,
        "seen-1",
    )
    node.destroy("seen-1")
    events = list(itertools.takewhile(lambda event: event.event != weir.Happened.removed, told))
    [after] = itertools.islice(node.follow_events(name="seen-*", last=first.number), 1)
    assert after == events[0]
    assert node.list_events(name="seen-*")[-1].event == weir.Happened.removed


def test_asyncio_does_the_same(run: Path, node: weir.Client) -> None:
    async def all_of_it() -> None:
        async with weir.AsyncClient(run / "node.sock") as client:
            await client.create_guest(guest("sink"))
            await client.create_guest(guest("source", SOURCE))
            # Two at once.
            version, guests = await asyncio.gather(client.show_node(), client.list_guests())
            assert version.guests == len(guests) == 2
            async for look in client.guest_rates("sink", interval=0.3):
                assert look["lan"].rx_frames > 100
                break
            assert int(await client.read("sink", "seen.count")) > 0
            await client.create_guest(weir.GuestObject(name="printer", config=PRINTER))
            async for line in client.follow_guest_log("printer"):
                assert line.line == "1"
                break
            await client.destroy("printer")
            told = client.act_on_guests(weir.GuestAction(action=weir.Action.destroy, guests=["s*"]))
            assert {outcome.guest async for outcome in told} == {"sink", "source"}
            with pytest.raises(weir.NotFound):
                await client.show_guest("sink")

    asyncio.run(all_of_it())


def test_a_node_on_the_network_asks_for_a_certificate(
    host: Host, node: weir.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = host.certificates
    monkeypatch.setenv("WEIR_NODE", host.url)
    monkeypatch.setenv("WEIR_CA", str(files / "ca.pem"))
    with weir.Client(cert=files / "operator.pem", key=files / "operator.key") as operator:
        operator.create_guest(guest("far"))
        assert [outcome.guest for outcome in operator.stop("far")] == ["far"]
        assert next(operator.follow_events(name="far")).by == "operator"
    with weir.Client(cert=files / "watcher.pem", key=files / "watcher.key") as watcher:
        assert watcher.show_guest("far").name == "far"
        with pytest.raises(weir.Forbidden, match="read-only"):
            watcher.delete_guest("far")
    # Another authority's node is no node.
    stranger = weir.Client(
        cert=files / "watcher.pem", key=files / "watcher.key", ca=files / "watcher.pem"
    )
    with stranger, pytest.raises(weir.Unavailable, match="certificate verify failed"):
        stranger.show_node()

    async def asked() -> str:
        async with weir.AsyncClient(
            cert=files / "watcher.pem", key=files / "watcher.key"
        ) as client:
            return (await client.show_guest("far")).name

    assert asyncio.run(asked()) == "far"


def test_a_node_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with weir.Client(tmp_path / "node.sock") as client:
        with pytest.raises(weir.Unavailable, match="no node runs at .*`weir node` starts one"):
            client.show_node()
        told = client.act_on_guests(weir.GuestAction(action=weir.Action.stop, guests=["fw"]))
        with pytest.raises(weir.Unavailable):
            next(told)


def test_the_environment_says_where_the_node_is(
    run: Path, node: weir.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_RUN", str(run))
    with weir.Client() as client:
        assert client.show_node() == node.show_node()
    monkeypatch.setenv("WEIR_NODE", "http://localhost:1")
    with pytest.raises(ValueError, match="use https://HOST:PORT, or a socket's path"):
        weir.Client()
    monkeypatch.setenv("WEIR_NODE", "https://localhost:1")
    with pytest.raises(ValueError, match="give cert, key and ca"):
        weir.Client()


def operations() -> list[dict[str, Any]]:
    text = subprocess.run([WEIR, "node", "--openapi"], capture_output=True, check=True).stdout
    description = json.loads(text)
    return [operation for item in description["paths"].values() for operation in item.values()]


def test_every_operation_of_the_api_is_a_method() -> None:
    for operation in operations():
        name = operation["operationId"].replace("-", "_")
        assert hasattr(weir.Client, name) and hasattr(weir.AsyncClient, name)


def test_the_examples_of_the_description_are_models() -> None:
    bodies = [operation.get("requestBody", {}) for operation in operations()]
    answers = [answer for operation in operations() for answer in operation["responses"].values()]
    contents = [part.get("content", {}).get("application/json") for part in bodies + answers]
    checked = 0
    for content in filter(None, contents):
        is_list = content["schema"].get("type") == "array"
        schema = content["schema"]["items"] if is_list else content["schema"]
        if "$ref" not in schema:
            continue
        model = getattr(weir, schema["$ref"].rsplit("/", 1)[1])
        for example in content["example"] if is_list else [content["example"]]:
            model.model_validate(example)
            checked += 1
    assert checked > 200


def test_every_kind_of_error_is_an_exception() -> None:
    for kind in weir.Kind:
        assert type(weir.WeirError.of(kind, "why")) is not weir.WeirError, kind
