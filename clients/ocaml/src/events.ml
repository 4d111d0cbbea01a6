(* Server-sent events, as their text arrives: the data of each. *)

(* Most bytes of one event. *)
let limit = 1 lsl 20

type t = { line : Buffer.t; data : Buffer.t }

let create () = { line = Buffer.create 4096; data = Buffer.create 4096 }

(* A line without its end. A comment, an id and a type of event are nothing to us: the data has the
   number, and all events are of one type. *)
let line it found text =
  let field = "data:" in
  let length = String.length field in
  if text = "" then (
    let data = Buffer.contents it.data in
    Buffer.clear it.data;
    if data <> "" then found (Elements.parsed data))
  else if String.length text >= length && String.sub text 0 length = field then (
    let value = String.sub text length (String.length text - length) in
    if Buffer.length it.data > 0 then Buffer.add_char it.data '\n';
    Buffer.add_string it.data value)

(* Takes the next piece of the text, and calls [found] with each event that is complete. *)
let add it found piece =
  let character = function
    | '\n' ->
        let text = Buffer.contents it.line in
        Buffer.clear it.line;
        line it found text
    | '\r' -> ()
    | c ->
        if Buffer.length it.line + Buffer.length it.data >= limit then
          Failure.confused "an event is too long";
        Buffer.add_char it.line c
  in
  String.iter character piece
