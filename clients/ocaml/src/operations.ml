(* Written by generate/generate.ml from the API's description. *)

(** Lists applications. *)
let list_applications ?name node = Call.json node (Call.list Models.Application_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "applications" ]

(** Admits a program as an application, whose sockets a network stack module serves. *)
let admit_application node body = Call.json node Models.Admitted.of_yojson ~body:(Models.Admission.to_yojson body) "POST" [ "v1"; "applications" ]

(** Removes an application. Its sockets are closed. A program that the node runs ends, by SIGTERM and after 10 s by SIGKILL; other programs go on without sockets. *)
let delete_application node name = Call.unit node "DELETE" [ "v1"; "applications"; name ]

(** Shows an application. *)
let show_application node name = Call.json node Models.Application_object.of_yojson "GET" [ "v1"; "applications"; name ]

(** Changes fields of an application (JSON merge patch); null resets a field. With another `nsm`, new sockets go there; present ones stay where they are. `properties` and `restart` can change, too. *)
let patch_application node name body = Call.json node Models.Application_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "applications"; name ]

(** Changes an application to match the body. With another `nsm`, new sockets go there; present ones stay where they are. `properties` and `restart` can change, too. *)
let put_application node name body = Call.json node Models.Application_object.of_yojson ~body:(Models.Application_object.to_yojson body) "PUT" [ "v1"; "applications"; name ]

(** Lists the sockets of an application. *)
let list_sockets node name = Call.json node (Call.list Models.Socket.of_yojson) "GET" [ "v1"; "applications"; name; "sockets" ]

(** Shows what the sockets of an application do: the records behind one. The first request begins the trace, which ends after 10 s without a request. *)
let trace_sockets ?after node name = Call.json node Models.Socket_trace.of_yojson ~query:[ ("after", Option.map string_of_int after) ] "GET" [ "v1"; "applications"; name; "trace" ]

(** Lists the crash reports of guests that the node keeps, oldest first. *)
let list_crashes ?name node = Call.json node (Call.list Models.Crash_report.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "crashes" ]

(** Removes a crash report by its number, or those of guests by a name or a pattern. *)
let remove_crashes node name = Call.unit node "DELETE" [ "v1"; "crashes"; name ]

(** Shows a crash report, by its number or as the last one of a guest. *)
let show_crash node name = Call.json node Models.Crash_report.of_yojson "GET" [ "v1"; "crashes"; name ]

(** Lists what happened: the events that the node keeps. *)
let list_events ?name ?since node = Call.json node (Call.list Models.Event.of_yojson) ~query:[ ("name", name); ("since", since) ] "GET" [ "v1"; "events" ]

(** Lists what happened: the events that the node keeps. Goes on with those to come, each of which is given to [found], which may raise an exception to go no further. After a break, [last] is the last one's number. *)
let follow_events ?name ?since ?last node found = Call.follow node Models.Event.of_yojson ?last ~query:[ ("name", name); ("since", since) ] "GET" [ "v1"; "events" ] found

(** Shows the counters of all flows. *)
let list_flow_stats node = Call.json node (Call.list Models.Flow_stats.of_yojson) "GET" [ "v1"; "flow-stats" ]

(** Shows the counters of one flow. *)
let show_flow_stats node name = Call.json node Models.Flow_stats.of_yojson "GET" [ "v1"; "flow-stats"; name ]

(** Lists flows. *)
let list_flows ?name node = Call.json node (Call.list Models.Flow_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "flows" ]

(** Creates a flow. On a VNIC that is down, the flow waits until it is up. *)
let create_flow node body = Call.json node Models.Flow_object.of_yojson ~body:(Models.Flow_object.to_yojson body) "POST" [ "v1"; "flows" ]

(** Removes a flow. *)
let delete_flow node name = Call.unit node "DELETE" [ "v1"; "flows"; name ]

(** Shows a flow. *)
let show_flow node name = Call.json node Models.Flow_object.of_yojson "GET" [ "v1"; "flows"; name ]

(** Changes fields of a flow (JSON merge patch); null resets a field. A changed flow is another one in the switch: it counts from 0, and its frames have no limit for a moment. *)
let patch_flow node name body = Call.json node Models.Flow_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "flows"; name ]

(** Creates a flow, or changes it to match the body. A changed flow is another one in the switch: it counts from 0, and its frames have no limit for a moment. *)
let put_flow node name body = Call.json node Models.Flow_object.of_yojson ~body:(Models.Flow_object.to_yojson body) "PUT" [ "v1"; "flows"; name ]

(** Does something with many guests at once, by names and patterns; the answer has each guest as soon as it is done. Each is given to [found], which may raise an exception to go no further. *)
let act_on_guests node body found = Call.grow node Models.Guest_outcome.of_yojson ~body:(Models.Guest_action.to_yojson body) "POST" [ "v1"; "guest-actions" ] found

(** Shows what guests printed: the lines that the node keeps of them, in the order in which it took them. *)
let list_guest_logs ?name ?since ?tail node = Call.json node (Call.list Models.Log_line.of_yojson) ~query:[ ("name", name); ("since", since); ("tail", Option.map string_of_int tail) ] "GET" [ "v1"; "guest-logs" ]

(** Shows what guests printed: the lines that the node keeps of them, in the order in which it took them. Goes on with those to come, each of which is given to [found], which may raise an exception to go no further. After a break, [last] is the last one's number. *)
let follow_guest_logs ?name ?since ?tail ?last node found = Call.follow node Models.Log_line.of_yojson ?last ~query:[ ("name", name); ("since", since); ("tail", Option.map string_of_int tail) ] "GET" [ "v1"; "guest-logs" ] found

(** Restores a saved guest: into the stopped guest of its name, or as a new one. *)
let restore_guest node body = Call.json node Models.Guest_object.of_yojson ~body:(Models.Restore.to_yojson body) "POST" [ "v1"; "guest-restore" ]

(** Creates guests that differ by a number; the answer has each guest as soon as it runs. Each is given to [found], which may raise an exception to go no further. *)
let create_guests node body found = Call.grow node Models.Guest_outcome.of_yojson ~body:(Models.Guest_series.to_yojson body) "POST" [ "v1"; "guest-series" ] found

(** Lists guests. The configurations are omitted. *)
let list_guests ?name node = Call.json node (Call.list Models.Guest_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "guests" ]

(** Creates a guest. The answer comes when the guest runs; a guest that does not start is removed. *)
let create_guest node body = Call.json node Models.Guest_object.of_yojson ~body:(Models.Guest_object.to_yojson body) "POST" [ "v1"; "guests" ]

(** Removes a guest. The VNICs made for it are removed with it. *)
let delete_guest node name = Call.unit node "DELETE" [ "v1"; "guests"; name ]

(** Shows a guest. *)
let show_guest node name = Call.json node Models.Guest_object.of_yojson "GET" [ "v1"; "guests"; name ]

(** Changes fields of a guest (JSON merge patch); null resets a field. `restart`, `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a hotswap that keeps state. Other changes of a guest that runs hold from its next start on, as `status.pending` says. *)
let patch_guest node name body = Call.json node Models.Guest_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "guests"; name ]

(** Creates a guest, or changes it to match the body. `restart`, `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a hotswap that keeps state. Other changes of a guest that runs hold from its next start on, as `status.pending` says. *)
let put_guest node name body = Call.json node Models.Guest_object.of_yojson ~body:(Models.Guest_object.to_yojson body) "PUT" [ "v1"; "guests"; name ]

(** Makes copies of a guest, with its state and addresses of their own; the answer has each as soon as it runs. *)
let clone_guest node name body = Call.json node (Call.list Models.Guest_outcome.of_yojson) ~body:(Models.Clones.to_yojson body) "POST" [ "v1"; "guests"; name; "clone" ]

(** Uninstalls a configuration of a guest; the others keep their state. *)
let uninstall_configuration node name configuration = Call.unit node "DELETE" [ "v1"; "guests"; name; "configurations"; configuration ]

(** Shows a configuration that a guest runs beside its main one. *)
let show_configuration node name configuration = Call.json node Models.Configuration.of_yojson "GET" [ "v1"; "guests"; name; "configurations"; configuration ]

(** Installs or replaces another configuration of a guest; others keep their state. *)
let install_configuration node name configuration body = Call.json node Models.Guest_object.of_yojson ~body:(Models.Configuration.to_yojson body) "PUT" [ "v1"; "guests"; name; "configurations"; configuration ]

(** Shows what a guest printed: the lines that the node keeps of it. *)
let show_guest_log ?run ?since ?tail node name = Call.json node (Call.list Models.Log_line.of_yojson) ~query:[ ("run", Option.map string_of_bool run); ("since", since); ("tail", Option.map string_of_int tail) ] "GET" [ "v1"; "guests"; name; "log" ]

(** Shows what a guest printed: the lines that the node keeps of it. Goes on with those to come, each of which is given to [found], which may raise an exception to go no further. After a break, [last] is the last one's number. *)
let follow_guest_log ?run ?since ?tail ?last node name found = Call.follow node Models.Log_line.of_yojson ?last ~query:[ ("run", Option.map string_of_bool run); ("since", since); ("tail", Option.map string_of_int tail) ] "GET" [ "v1"; "guests"; name; "log" ] found

(** Moves a running guest to another node, with its state, addresses and frames. *)
let migrate_guest node name body = Call.json node Models.Migrated.of_yojson ~body:(Models.Migrate.to_yojson body) "POST" [ "v1"; "guests"; name; "migrate" ]

(** Reads a handler of a guest. *)
let read_handler node name body = Call.json node Models.Handler_value.of_yojson ~body:(Models.Handler_read.to_yojson body) "POST" [ "v1"; "guests"; name; "read" ]

(** Gives a guest another name; its VNICs keep theirs. *)
let rename_guest node name body = Call.json node Models.Guest_object.of_yojson ~body:(Models.Rename.to_yojson body) "POST" [ "v1"; "guests"; name; "rename" ]

(** Saves a guest to a file of the node's host; it is stopped then, or goes on with `keep`. *)
let save_guest node name body = Call.json node Models.Saved.of_yojson ~body:(Models.Save.to_yojson body) "POST" [ "v1"; "guests"; name; "save" ]

(** Writes a handler of a guest; `hotconfig` replaces its configuration, which is kept. *)
let write_handler node name body = Call.json node Models.Handler_value.of_yojson ~body:(Models.Handler_write.to_yojson body) "POST" [ "v1"; "guests"; name; "write" ]

(** Shows the counters of the switch's lanes. *)
let list_lanes node = Call.json node (Call.list Models.Lane_stats.of_yojson) "GET" [ "v1"; "lanes" ]

(** Lists links. *)
let list_links ?name node = Call.json node (Call.list Models.Link_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "links" ]

(** Creates a link. The interface belongs to the switch until the link is removed. *)
let create_link node body = Call.json node Models.Link_object.of_yojson ~body:(Models.Link_object.to_yojson body) "POST" [ "v1"; "links" ]

(** Removes a link. The interface is restored to its former state. *)
let delete_link node name = Call.unit node "DELETE" [ "v1"; "links"; name ]

(** Shows a link. *)
let show_link node name = Call.json node Models.Link_object.of_yojson "GET" [ "v1"; "links"; name ]

(** Changes fields of a link (JSON merge patch); null resets a field. Properties hold from the next frame on. *)
let patch_link node name body = Call.json node Models.Link_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "links"; name ]

(** Creates a link, or changes it to match the body. *)
let put_link node name body = Call.json node Models.Link_object.of_yojson ~body:(Models.Link_object.to_yojson body) "PUT" [ "v1"; "links"; name ]

(** Removes all guests, VNICs, links, the switch and the state, and ends the node; `confirm` must be true. *)
let purge_node node body = Call.unit node ~body:(Models.Purge.to_yojson body) "DELETE" [ "v1"; "node" ]

(** Shows the node's version, processes and number of resources. *)
let show_node node = Call.json node Models.Node_status.of_yojson "GET" [ "v1"; "node" ]

(** Ends the guests that run and of which no record is left; the answer lists them. *)
let end_unknown node = Call.json node (Call.list Models.Unknown_guest.of_yojson) "POST" [ "v1"; "node"; "end-unknown" ]

(** Forgets the damaged records of the state. *)
let forget_damaged node = Call.unit node "POST" [ "v1"; "node"; "forget-damaged" ]

(** Lists network stack modules. *)
let list_nsms ?name node = Call.json node (Call.list Models.Nsm_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "nsms" ]

(** Creates a network stack module. The answer comes when it serves; one that does not start is removed. *)
let create_nsm node body = Call.json node Models.Nsm_object.of_yojson ~body:(Models.Nsm_object.to_yojson body) "POST" [ "v1"; "nsms" ]

(** Removes a network stack module. No application may use it. *)
let delete_nsm node name = Call.unit node "DELETE" [ "v1"; "nsms"; name ]

(** Shows a network stack module. *)
let show_nsm node name = Call.json node Models.Nsm_object.of_yojson "GET" [ "v1"; "nsms"; name ]

(** Changes fields of a network stack module (JSON merge patch); null resets a field. Its `properties` can change, at once, and its `cores`: it restarts, as if it had ended. *)
let patch_nsm node name body = Call.json node Models.Nsm_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "nsms"; name ]

(** Creates a network stack module, or changes it to match the body. Its `properties` can change, at once, and its `cores`: it restarts, as if it had ended. *)
let put_nsm node name body = Call.json node Models.Nsm_object.of_yojson ~body:(Models.Nsm_object.to_yojson body) "PUT" [ "v1"; "nsms"; name ]

(** Lists the flows of which guests said that they are settled, and for those that are not, why; with `name`, of these VNICs. *)
let list_settled_flows ?name node = Call.json node (Call.list Models.Settled_flow.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "settled-flows" ]

(** Shows the counters of all attached interfaces, VNICs and patches. *)
let list_stats node = Call.json node (Call.list Models.Port_stats.of_yojson) "GET" [ "v1"; "stats" ]

(** Shows the counters of one attached interface, VNIC or end of a patch. *)
let show_stats node name = Call.json node Models.Port_stats.of_yojson "GET" [ "v1"; "stats"; name ]

(** Shows the counters of one attached interface, VNIC or end of a patch, for each lane. *)
let show_lane_stats node name = Call.json node (Call.list Models.Port_stats.of_yojson) "GET" [ "v1"; "stats"; name; "lanes" ]

(** Lists stubs. *)
let list_stubs ?name node = Call.json node (Call.list Models.Stub_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "stubs" ]

(** Creates a stub. *)
let create_stub node body = Call.json node Models.Stub_object.of_yojson ~body:(Models.Stub_object.to_yojson body) "POST" [ "v1"; "stubs" ]

(** Removes a stub. No VNIC may be on it. *)
let delete_stub node name = Call.unit node "DELETE" [ "v1"; "stubs"; name ]

(** Shows a stub. *)
let show_stub node name = Call.json node Models.Stub_object.of_yojson "GET" [ "v1"; "stubs"; name ]

(** Changes fields of a stub (JSON merge patch); null resets a field. The MTU of a stub cannot change. *)
let patch_stub node name body = Call.json node Models.Stub_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "stubs"; name ]

(** Creates a stub, or changes it to match the body. The MTU of a stub cannot change. *)
let put_stub node name body = Call.json node Models.Stub_object.of_yojson ~body:(Models.Stub_object.to_yojson body) "PUT" [ "v1"; "stubs"; name ]

(** Lists the switches of all links. *)
let list_switches ?name node = Call.json node (Call.list Models.Switch_function_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "switches" ]

(** Shows the switch of a link. *)
let show_switch node name = Call.json node Models.Switch_function_object.of_yojson "GET" [ "v1"; "switches"; name ]

(** Changes fields of the switch of a link (JSON merge patch); null resets a field. *)
let patch_switch node name body = Call.json node Models.Switch_function_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "switches"; name ]

(** Changes the switch of a link to match the body. *)
let put_switch node name body = Call.json node Models.Switch_function_object.of_yojson ~body:(Models.Switch_function_object.to_yojson body) "PUT" [ "v1"; "switches"; name ]

(** Lists the entries of a link's flow table: made by command, or learned. *)
let list_entries node name = Call.json node (Call.list Models.Entry.of_yojson) "GET" [ "v1"; "switches"; name; "flows" ]

(** Sets the port of the link that a flow goes to. *)
let add_entry node name body = Call.json node Models.Entry.of_yojson ~body:(Models.Entry.to_yojson body) "POST" [ "v1"; "switches"; name; "flows" ]

(** Removes the entry, made by command, of a flow. *)
let remove_entry node name flow = Call.unit node "DELETE" [ "v1"; "switches"; name; "flows"; flow ]

(** Removes the addresses that the switch of a link has learned. *)
let flush_macs node name = Call.unit node "POST" [ "v1"; "switches"; name; "flush" ]

(** Lists the Ethernet addresses that the switch of a link knows. *)
let list_macs node name = Call.json node (Call.list Models.Address.of_yojson) "GET" [ "v1"; "switches"; name; "macs" ]

(** Lists VNICs. *)
let list_vnics ?name node = Call.json node (Call.list Models.Vnic_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "vnics" ]

(** Creates a VNIC. Its interface in a namespace or on the host is made with it. One with `guest` waits for a frame. *)
let create_vnic node body = Call.json node Models.Vnic_object.of_yojson ~body:(Models.Vnic_object.to_yojson body) "POST" [ "v1"; "vnics" ]

(** Removes a VNIC. Its interface is removed with it, or the guest that it started; no other guest may have it. *)
let delete_vnic node name = Call.unit node "DELETE" [ "v1"; "vnics"; name ]

(** Shows a VNIC. *)
let show_vnic node name = Call.json node Models.Vnic_object.of_yojson "GET" [ "v1"; "vnics"; name ]

(** Changes fields of a VNIC (JSON merge patch); null resets a field. `properties` and `addresses` can change; properties hold from the next frame on. *)
let patch_vnic node name body = Call.json node Models.Vnic_object.of_yojson ~body:(Fun.id body) "PATCH" [ "v1"; "vnics"; name ]

(** Creates a VNIC, or changes it to match the body. `properties` and `addresses` can change; properties hold from the next frame on. *)
let put_vnic node name body = Call.json node Models.Vnic_object.of_yojson ~body:(Models.Vnic_object.to_yojson body) "PUT" [ "v1"; "vnics"; name ]

(** Lists wires. The configurations of guests are omitted. *)
let list_wires ?name node = Call.json node (Call.list Models.Wire_object.of_yojson) ~query:[ ("name", name) ] "GET" [ "v1"; "wires" ]

(** Removes a wire. All its parts are removed with it. *)
let delete_wire node name = Call.unit node "DELETE" [ "v1"; "wires"; name ]

(** Shows a wire. *)
let show_wire node name = Call.json node Models.Wire_object.of_yojson "GET" [ "v1"; "wires"; name ]

(** Makes a wire match the body, as a whole or not at all. The answer lists the steps. *)
let apply_wire node name body = Call.json node Models.Wire_change.of_yojson ~body:(Models.Wire_object.to_yojson body) "PUT" [ "v1"; "wires"; name ]

(** Lists the steps that applying a wire would take. *)
let compare_wire node name body = Call.json node Models.Wire_change.of_yojson ~body:(Models.Wire_object.to_yojson body) "POST" [ "v1"; "wires"; name; "diff" ]
