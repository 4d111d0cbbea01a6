(* The elements of a JSON list of objects, as its text arrives. *)

(* Most bytes of one element. *)
let limit = 1 lsl 20

type state = Before | Between | Inside | After

type t = {
  element : Buffer.t;
  mutable state : state;
  mutable depth : int;
  mutable in_string : bool;
  mutable escaped : bool;
}

let create () =
  {
    element = Buffer.create 4096;
    state = Before;
    depth = 0;
    in_string = false;
    escaped = false;
  }

(* One character of an element; whether it is the last one. *)
let inside it c =
  if Buffer.length it.element >= limit then Failure.confused "an element is too long";
  Buffer.add_char it.element c;
  if it.in_string then (
    if it.escaped then it.escaped <- false
    else if c = '\\' then it.escaped <- true
    else if c = '"' then it.in_string <- false;
    false)
  else
    match c with
    | '"' ->
        it.in_string <- true;
        false
    | '{' | '[' ->
        it.depth <- it.depth + 1;
        false
    | '}' | ']' ->
        it.depth <- it.depth - 1;
        it.depth = 0
    | _ -> false

let parsed text =
  try Yojson.Safe.from_string text with Yojson.Json_error why -> Failure.confused why

(* Takes the next piece of the text, and calls [found] with each element that is complete. *)
let add it found piece =
  let character c =
    match (it.state, c) with
    | Inside, _ ->
        if inside it c then (
          let element = Buffer.contents it.element in
          Buffer.clear it.element;
          it.state <- Between;
          found (parsed element))
    | _, (' ' | '\t' | '\r' | '\n') -> ()
    | Before, '[' -> it.state <- Between
    | Before, _ -> Failure.confused "it is no list"
    | Between, ',' -> ()
    | Between, ']' -> it.state <- After
    | Between, '{' ->
        it.state <- Inside;
        ignore (inside it c)
    | Between, _ -> Failure.confused "an element is no object"
    | After, _ -> Failure.confused "something follows the list"
  in
  String.iter character piece

let has_ended it = it.state = After
