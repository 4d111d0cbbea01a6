(* Requests with answers of a type. *)

let given query =
  List.filter_map (fun (name, value) -> Option.map (fun value -> (name, value)) value) query

let checked of_yojson json =
  match of_yojson json with Ok value -> value | Error why -> Failure.confused ("no " ^ why)

let list of_yojson = function
  | `List elements -> Ok (List.map (checked of_yojson) elements)
  | _ -> Error "list"

let unit node ?(query = []) ?body meth path =
  Connection.exchange node ~query:(given query) ?body meth path ignore

let json node of_yojson ?(query = []) ?body meth path =
  let text = Buffer.create 4096 in
  Connection.exchange node ~query:(given query) ?body meth path (Buffer.add_string text);
  checked of_yojson (Elements.parsed (Buffer.contents text))

(* A list that grows: each element is given to [found] as soon as it has arrived. *)
let grow (node : Connection.t) of_yojson ?(query = []) ?body meth path found =
  let elements = Elements.create () in
  let found json = found (checked of_yojson json) in
  Connection.exchange node ~query:(given query) ?body meth path (Elements.add elements found);
  if not (Elements.has_ended elements) then
    Failure.fail `Unavailable
      (Printf.sprintf "the node at %s ended before its answer did" node.name)

(* Events without an end: each is given to [found] as soon as it has arrived. *)
let follow node of_yojson ?last ?(query = []) meth path found =
  let events = Events.create () in
  let found json = found (checked of_yojson json) in
  let last = Option.map (fun number -> ("last-event-id", string_of_int number)) last in
  let headers = ("accept", "text/event-stream") :: Option.to_list last in
  Connection.exchange node ~seconds:Connection.silence ~headers ~query:(given query) meth path
    (Events.add events found)
