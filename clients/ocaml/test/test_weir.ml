(* The client and a real node with real guests; answers as they arrive, whatever arrives. *)

open OUnit2
open Weir.Models

let weir = Option.value (Sys.getenv_opt "WEIR") ~default:"weir"

(* A guest that sends 1000 frames a second, one that counts them, and one that prints numbers. *)
let source =
  "RatedSource(DATA \"\\<ffffffffffff 020000000001 0800>\", RATE 1000) -> ToNetfront(lan);"

let sink = "FromNetfront(lan) -> seen :: Counter -> Discard;"

let printer =
  "s :: Script(set n 0, label again, wait 0.05, set n $(add $n 1), print $n, goto again);"

let guest ?(config = sink) name =
  Guest_object.make ~name ~config ~interfaces:[ ("lan", "lan") ] ()

let free_port () =
  let fd = Unix.socket Unix.PF_INET Unix.SOCK_STREAM 0 in
  Unix.bind fd (Unix.ADDR_INET (Unix.inet_addr_loopback, 0));
  let address = Unix.getsockname fd in
  Unix.close fd;
  match address with Unix.ADDR_INET (_, port) -> port | Unix.ADDR_UNIX _ -> assert false

let fails kind work =
  match work () with
  | _ -> assert_failure "it succeeds"
  | exception Weir.Error error when error.kind = kind -> (error.sentence, error.field)

let a_node_on_the_network_asks_for_a_certificate url file node =
  ignore (Weir.create_guest node (guest "fw"));
  let client ?(ca = "ca") name =
    let cert = file (name ^ ".pem") and key = file (name ^ ".key") in
    Weir.connect ~node:url ~cert ~key ~ca:(file (ca ^ ".pem")) ()
  in
  let watcher = client "watcher" in
  assert_equal "fw" (Weir.show_guest watcher "fw").name;
  ignore (fails `Forbidden (fun () -> Weir.delete_guest watcher "fw"));
  (* Another authority's node is no node. *)
  let stranger = client ~ca:"watcher" "watcher" in
  ignore (fails `Unavailable (fun () -> Weir.list_guests stranger));
  assert_equal 1 (List.length (Weir.destroy (client "operator") [ "fw" ]))

(* Runs a node with the stub `lan`. *)
let with_node test =
  (* A socket's path is at most 107 bytes. *)
  let folder = Filename.temp_file "weir-ocaml-" "" in
  Sys.remove folder;
  Unix.mkdir folder 0o700;
  let run = Filename.concat folder "run" in
  let places = [| "WEIR_RUN=" ^ run; "WEIR_STATE=" ^ Filename.concat folder "state" |] in
  let environment = Array.append places (Unix.environment ()) in
  let started program arguments errors =
    let command = Array.of_list (program :: arguments) in
    Unix.create_process_env program command environment Unix.stdin Unix.stdout errors
  in
  let ran program arguments =
    let _, status = Unix.waitpid [] (started program arguments Unix.stderr) in
    assert_equal ~msg:program (Unix.WEXITED 0) status
  in
  let certificates = Filename.concat folder "certificates" in
  let file = Filename.concat certificates in
  ran (Sys.getenv "ROOT" ^ "/clients/certificates") [ certificates ];
  let listen = Printf.sprintf "127.0.0.1:%d" (free_port ()) in
  let tls = [ "--tls-cert"; file "node.pem"; "--tls-key"; file "node.key" ] in
  let tls = tls @ [ "--tls-client-ca"; file "ca.pem"; "--config"; file "node.toml" ] in
  let said, log = Unix.pipe ~cloexec:true () in
  let pid = started weir ([ "node"; "--listen"; listen ] @ tls) log in
  Unix.close log;
  let said = Unix.in_channel_of_descr said in
  let is_ready line =
    let text = "the node is ready" in
    let length = String.length text in
    let rec at i = i + length <= String.length line && (String.sub line i length = text || at (i + 1)) in
    at 0
  in
  let rec wait () = if not (is_ready (input_line said)) then wait () in
  wait ();
  let finish () =
    ran weir [ "node"; "--purge" ];
    ignore (Unix.waitpid [] pid);
    close_in said;
    ran "rm" [ "-r"; folder ]
  in
  Fun.protect ~finally:finish (fun () ->
      let node = Weir.connect ~node:(Filename.concat run "node.sock") () in
      ignore (Weir.create_stub node (Stub_object.make ~name:"lan" ()));
      test node;
      a_node_on_the_network_asks_for_a_certificate ("https://" ^ listen) file node;
      (* The code of the README names files from the project's folder. *)
      let readme = Filename.concat (Sys.getcwd ()) "readme.exe" in
      ran "sh" [ "-c"; "cd \"$ROOT\" && exec \"$0\""; readme ])

let state (guest : Guest_status.t option) = Option.bind guest (fun it -> it.state)
let names outcomes = List.map (fun (it : Guest_outcome.t) -> it.guest) outcomes

let taken count seq =
  let rec go count seq =
    if count = 0 then []
    else match seq () with Seq.Nil -> [] | Seq.Cons (it, rest) -> it :: go (count - 1) rest
  in
  go count seq

(* The first elements that a function gives. *)
let first count each =
  let found = ref [] in
  (try
     each (fun it ->
         found := it :: !found;
         if List.length !found = count then raise Exit)
   with Exit -> ());
  List.rev !found

let a_guest_is_created_stopped_started_and_destroyed node =
  let made = Weir.create_guest node (guest "fw") in
  assert_equal (Some `Running) (state made.status);
  let stopped = Weir.stop node [ "fw" ] in
  assert_equal [ Some `Stopped ] (List.map (fun (it : Guest_outcome.t) -> state it.status) stopped);
  ignore (Weir.start node [ "fw" ]);
  ignore (Weir.pause node [ "fw" ]);
  assert_equal (Some `Paused) (state (Weir.show_guest node "fw").status);
  ignore (Weir.resume node [ "fw" ]);
  ignore (Weir.restart node [ "fw" ]);
  let renamed = Weir.rename_guest node "fw" (Rename.make ~name:"nat") in
  assert_equal "nat" renamed.name;
  ignore (Weir.destroy node [ "nat" ]);
  assert_equal [] (Weir.list_guests node)

let series count =
  let guest = Guest.make ~config:sink ~interfaces:[ ("lan", "lan") ] () in
  Guest_series.make ~name:"fw-{}" ~count ~guest ()

let many_guests_are_one_request_and_are_told_of_one_by_one node =
  let told = ref [] in
  Weir.create_guests node (series 5) (fun outcome ->
      (* Other requests are served while the answer grows. *)
      assert_equal outcome.guest (Weir.show_guest node outcome.guest).name;
      told := outcome.guest :: !told);
  assert_equal [ "fw-1"; "fw-2"; "fw-3"; "fw-4"; "fw-5" ] (List.rev !told);
  assert_equal 3 (List.length (Weir.stop node [ "fw-[1-3]" ]));
  assert_equal 5 (List.length (Weir.list_guests ~name:"fw-*" node));
  assert_equal 5 (List.length (Weir.destroy node [ "fw-*" ]));
  (* An exception leaves the rest undone. *)
  let begun = first 1 (Weir.create_guests node (series 200)) in
  assert_equal [ "fw-1" ] (names begun);
  let rec settled before =
    Unix.sleepf 0.3;
    let now = List.length (Weir.list_guests node) in
    if now = before then now else settled now
  in
  assert_bool "all were made" (settled 0 < 200);
  ignore (Weir.destroy node [ "*" ])

let if_one_guest_fails_the_others_are_done_and_its_error_is_raised node =
  ignore (Weir.create_guest node (guest "fw"));
  (match Weir.stop node [ "nobody"; "fw" ] with
  | _ -> assert_failure "it succeeds"
  | exception Weir.Error { kind = `Not_found; sentence; outcomes; _ } ->
      assert_bool sentence (String.length sentence > 10);
      assert_equal [ "fw"; "nobody" ] (List.sort compare (names outcomes)));
  assert_equal (Some `Stopped) (state (Weir.show_guest node "fw").status);
  ignore (Weir.destroy node [ "fw" ])

let handlers_and_rates_are_those_of_the_traffic node =
  ignore (Weir.create_guest node (guest "sink"));
  ignore (Weir.create_guest node (guest "source" ~config:source));
  let look (rates : (string * Weir.Rate.t) list) =
    let rate = List.assoc "lan" rates in
    assert_equal "sink.lan" rate.name;
    assert_bool "seconds" (rate.seconds > 0.4 && rate.seconds < 5.);
    let msg = Printf.sprintf "%f frames a second" rate.rx_frames in
    assert_bool msg (rate.rx_frames > 0. && rate.rx_frames < 2000.);
    assert_bool msg (Float.abs ((rate.rx_bytes /. rate.rx_frames) -. 14.) < 0.01)
  in
  List.iter look (taken 3 (Weir.guest_rates ~interval:0.5 node "sink"));
  assert_equal [ 2 ] (List.map List.length (taken 1 (Weir.rates ~interval:0.1 node [])));
  assert_bool "count" (int_of_string (String.trim (Weir.read node "sink" "seen.count")) > 0);
  ignore (Weir.destroy node [ "source" ]);
  ignore (Weir.write node "sink" "seen.reset_counts" "");
  assert_equal "0" (String.trim (Weir.read node "sink" "seen.count"));
  (* What is shown can be sent back. *)
  let shown = Weir.show_guest node "sink" in
  assert_equal shown.config (Weir.put_guest node "sink" shown).config;
  ignore (Weir.destroy node [ "sink" ])

let logs_and_events_are_followed_and_gone_on_with node =
  ignore (Weir.create_guest node (Guest_object.make ~name:"fw" ~config:printer ()));
  let texts = List.map (fun (line : Log_line.t) -> line.line) in
  let lines = first 3 (Weir.follow_guest_log node "fw") in
  assert_equal [ "1"; "2"; "3" ] (texts lines);
  let last = (List.nth lines 1).number in
  assert_equal [ "3" ] (texts (first 1 (Weir.follow_guest_log ~last node "fw")));
  assert_equal 2 (List.length (Weir.list_guest_logs ~name:"f*" ~tail:2 node));
  ignore (Weir.destroy node [ "fw" ]);
  let events = first 2 (Weir.follow_events ~name:"fw" node) in
  let created = List.hd events in
  assert_equal (`Guest, `Created) (created.topic, created.event);
  let last = created.number in
  assert_equal (List.tl events) (first 1 (Weir.follow_events ~name:"fw" ~last node))

let errors_are_exceptions_with_kind_sentence_and_field node =
  let _, field =
    fails `Invalid (fun () -> Weir.create_stub node (Stub_object.make ~name:"small" ~mtu:9 ()))
  in
  assert_equal (Some "mtu") field;
  ignore (fails `Exists (fun () -> Weir.create_stub node (Stub_object.make ~name:"lan" ())));
  let patched = Weir.patch_switch node "lan" (`Assoc [ ("mac-limit", `Int 7) ]) in
  assert_equal (Some 7) patched.mac_limit;
  (* Any name is one segment of the path. *)
  let odd name = ignore (fails `Not_found (fun () -> Weir.show_vnic node name)) in
  List.iter odd [ "a/b"; "../guests"; "ä ?#%" ];
  let nobody = Weir.connect ~node:"/nowhere/node.sock" () in
  let sentence, _ = fails `Unavailable (fun () -> Weir.list_guests nobody) in
  assert_bool sentence (String.sub sentence 0 39 = "no node runs at /nowhere/node.sock: `we");
  let wrong node = try ignore (Weir.connect ~node ()); false with Invalid_argument _ -> true in
  assert_bool "places" (List.for_all wrong [ "http://localhost:1"; "https://localhost:1" ])

let cases_with_a_node =
  [
    a_guest_is_created_stopped_started_and_destroyed;
    many_guests_are_one_request_and_are_told_of_one_by_one;
    if_one_guest_fails_the_others_are_done_and_its_error_is_raised;
    handlers_and_rates_are_those_of_the_traffic;
    logs_and_events_are_followed_and_gone_on_with;
    errors_are_exceptions_with_kind_sentence_and_field;
  ]

let pieces length text =
  let size = String.length text in
  let count = (size + length - 1) / length in
  List.init count (fun i -> String.sub text (i * length) (min length (size - (i * length))))

let elements texts =
  let it = Weir__Elements.create () in
  let found = ref [] in
  List.iter (Weir__Elements.add it (fun json -> found := json :: !found)) texts;
  (List.rev !found, Weir__Elements.has_ended it)

let a_list_is_read_whatever_pieces_it_comes_in _ =
  let one = {|{"guest": "a]},{", "b": "\"\\", "c": {"d": [1, {}]}}|} in
  let text = "[" ^ one ^ ",\n" ^ one ^ "]\n" in
  let expected = List.init 2 (fun _ -> Yojson.Safe.from_string one) in
  for length = 1 to String.length text do
    assert_equal (expected, true) (elements (pieces length text))
  done;
  assert_equal ([], true) (elements [ "["; "]" ]);
  let broken_off text = assert_equal false (snd (elements [ text ])) in
  List.iter broken_off [ ""; "["; {|[{"guest": "a"}|}; {|[{"guest": "a"|} ]

let an_answer_that_is_something_else_is_an_error _ =
  let wrong texts = ignore (fails `Failed (fun () -> elements texts)) in
  List.iter (fun text -> wrong [ text ]) [ "{}"; "[1]"; "[]x"; "[["; "<html>"; "[{x}]" ];
  wrong ({|[{"guest": "|} :: List.init 33 (fun _ -> String.make 32768 'x'));
  let refusal text = fails `Failed (fun () -> Weir__Failure.refusal 502 text) in
  List.iter (fun text -> ignore (refusal text)) [ ""; "<html>"; "[]"; "null"; {|{"kind": 1}|} ];
  let unknown () = Weir__Failure.refusal 418 {|{"kind": "new", "error": "why", "field": "f"}|} in
  assert_equal ("why", Some "f") (fails (`Other "new") unknown)

let events_are_read_whatever_pieces_they_come_in _ =
  let text = ":\n\nid: 1\ndata: {\"a\":\ndata: 1}\n\nevent: x\r\ndata:{}\r\n\r\ndata: {}\n" in
  for length = 1 to String.length text do
    let it = Weir__Events.create () in
    let found = ref [] in
    List.iter (Weir__Events.add it (fun json -> found := json :: !found)) (pieces length text);
    assert_equal [ `Assoc [ ("a", `Int 1) ]; `Assoc [] ] (List.rev !found)
  done

let suite =
  "weir"
  >::: [
         "node" >: test_case ~length:Long (fun _ ->
             with_node (fun node -> List.iter (fun case -> case node) cases_with_a_node));
         "a list is read whatever pieces it comes in"
         >:: a_list_is_read_whatever_pieces_it_comes_in;
         "an answer that is something else is an error"
         >:: an_answer_that_is_something_else_is_an_error;
         "events are read whatever pieces they come in"
         >:: events_are_read_whatever_pieces_they_come_in;
       ]

let () = run_test_tt_main suite
