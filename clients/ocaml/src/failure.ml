(* What the node did not do. *)

exception
  Error of {
    kind : Models.Kind.t;
    sentence : string;  (** What was wrong, where, and what would be right. *)
    field : string option;  (** The field of the request that is wrong, if one is. *)
    outcomes : Models.Guest_outcome.t list;
        (** If guests were to be changed: what became of each. *)
  }

let fail ?field ?(outcomes = []) kind sentence = raise (Error { kind; sentence; field; outcomes })

let confused why =
  fail `Failed
    (Printf.sprintf "the node's answer cannot be parsed: %s: is it of the same version?" why)

(* What the node refused, in its words. *)
let refusal status text =
  match Models.Error.of_yojson (Yojson.Safe.from_string text) with
  | Ok { kind; error; field } -> fail ?field kind error
  | Error _ | (exception Yojson.Json_error _) ->
      fail `Failed (Printf.sprintf "the node answered %d without a reason" status)

let () =
  Printexc.register_printer (function
    | Error { sentence; _ } -> Some ("Weir: " ^ sentence)
    | _ -> None)
