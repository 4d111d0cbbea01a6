(* Requests to a node, by a Unix socket or by TLS. Each request has a connection of its own. *)

type place = Socket of string | Tls of { host : string; port : int; context : Ssl.context }
type t = { name : string; place : place }

(* Seconds without a part of an answer after which a node does not answer. An answer that is followed
   has a sign of life every 10 s. *)
let timeout = 30.
let silence = 40.

(* Longest line of an answer's head, in bytes. *)
let line_limit = 1 lsl 16

let tls ?cert ?key ?ca host port =
  match (cert, key) with
  | Some cert, Some key ->
      Ssl.init ();
      (* By this name, OpenSSL takes the newest version that both sides have. *)
      let context = Ssl.create_context Ssl.SSLv23 Ssl.Client_context in
      Ssl.use_certificate context cert key;
      (match ca with
      | Some ca -> Ssl.load_verify_locations context ca ""
      | None -> ignore (Ssl.set_default_verify_paths context));
      Ssl.set_verify context [ Ssl.Verify_peer ] None;
      Tls { host; port; context }
  | _ -> invalid_arg "a node on the network asks for a certificate: give cert, key and ca"

let make ?node ?cert ?key ?ca () =
  let variable name = match Sys.getenv_opt name with Some "" -> None | value -> value in
  let first a b = match a with Some _ -> a | None -> variable b in
  let run = Option.value (variable "WEIR_RUN") ~default:"/run/weir" in
  let name = Option.value (first node "WEIR_NODE") ~default:(run ^ "/node.sock") in
  let uri = Uri.of_string name in
  let place =
    match (Uri.scheme uri, Uri.host uri, Uri.port uri) with
    | None, _, _ -> Socket name
    | Some "https", Some host, Some port ->
        tls ?cert:(first cert "WEIR_CERT") ?key:(first key "WEIR_KEY") ?ca:(first ca "WEIR_CA")
          host port
    | _ -> invalid_arg (name ^ " is no node: use https://HOST:PORT, or a socket's path")
  in
  { name; place }

(* A connection as cohttp uses it. *)
type stream = {
  read : bytes -> int -> int -> int;
  write : bytes -> int -> int -> int;
  close : unit -> unit;
  buffer : bytes;
  mutable next : int;
  mutable filled : int;
}

module Io = struct
  type 'a t = 'a
  type ic = stream
  type oc = stream
  type conn = stream

  let ( >>= ) it f = f it
  let return it = it

  (* Whether there is something in the buffer. *)
  let fill ic =
    if ic.next = ic.filled then (
      ic.next <- 0;
      ic.filled <- ic.read ic.buffer 0 (Bytes.length ic.buffer));
    ic.next < ic.filled

  let read ic most =
    if most > 0 && fill ic then (
      let length = min most (ic.filled - ic.next) in
      let text = Bytes.sub_string ic.buffer ic.next length in
      ic.next <- ic.next + length;
      text)
    else ""

  let read_line ic =
    let line = Buffer.create 80 in
    let rec go () =
      match read ic 1 with
      | "" -> None
      | "\n" ->
          let text = Buffer.contents line in
          let length = String.length text in
          let bare = length > 0 && text.[length - 1] = '\r' in
          Some (if bare then String.sub text 0 (length - 1) else text)
      | _ when Buffer.length line = line_limit -> None
      | c ->
          Buffer.add_string line c;
          go ()
    in
    go ()

  let write oc text =
    let text = Bytes.of_string text in
    let rec go from =
      if from < Bytes.length text then go (from + oc.write text from (Bytes.length text - from))
    in
    go 0

  let flush _ = ()
end

module Request = Cohttp.Request.Make (Io)
module Response = Cohttp.Response.Make (Io)

let opened it seconds =
  let unavailable why = Failure.fail `Unavailable why in
  let connected domain address =
    let fd = Unix.socket ~cloexec:true domain Unix.SOCK_STREAM 0 in
    try
      Unix.setsockopt_float fd Unix.SO_RCVTIMEO seconds;
      Unix.setsockopt_float fd Unix.SO_SNDTIMEO timeout;
      Unix.connect fd address;
      fd
    with error ->
      Unix.close fd;
      raise error
  in
  let stream read write close =
    { read; write; close; buffer = Bytes.create 65536; next = 0; filled = 0 }
  in
  match it.place with
  | Socket path -> (
      match connected Unix.PF_UNIX (Unix.ADDR_UNIX path) with
      | fd -> stream (Unix.read fd) (Unix.write fd) (fun () -> Unix.close fd)
      | exception Unix.Unix_error (error, _, _) ->
          unavailable
            (Printf.sprintf "no node runs at %s: `weir node` starts one (%s)" it.name
               (Unix.error_message error)))
  | Tls { host; port; context } -> (
      let unreachable why =
        unavailable (Printf.sprintf "the node at %s cannot be reached: %s" it.name why)
      in
      match Unix.getaddrinfo host (string_of_int port) [ Unix.AI_SOCKTYPE Unix.SOCK_STREAM ] with
      | [] -> unreachable "the host is unknown"
      | { ai_family; ai_addr; _ } :: _ -> (
          match connected ai_family ai_addr with
          | exception Unix.Unix_error (error, _, _) -> unreachable (Unix.error_message error)
          | fd -> (
              let socket = Ssl.embed_socket fd context in
              match
                (match Unix.inet_addr_of_string host with
                | _ -> Ssl.set_ip socket host
                | exception Stdlib.Failure _ ->
                    Ssl.set_client_SNI_hostname socket host;
                    Ssl.set_host socket host);
                Ssl.connect socket
              with
              | () ->
                  let read buffer from length =
                    try Ssl.read socket buffer from length
                    with Ssl.Read_error Ssl.Error_zero_return -> 0
                  in
                  stream read (Ssl.write socket) (fun () -> Unix.close fd)
              | exception error ->
                  Unix.close fd;
                  unreachable
                    (match error with
                    | Ssl.Connection_error _ -> Ssl.get_error_string ()
                    | error -> Printexc.to_string error))))

(* Sends a request, and calls [got] with each piece of the body of its answer. *)
let exchange it ?(seconds = timeout) ?(headers = []) ?(query = []) ?body meth path got =
  let path = String.concat "/" ("" :: List.map (Uri.pct_encode ~component:`Generic) path) in
  let query = List.map (fun (name, value) -> (name, [ value ])) query in
  let target = path ^ if query = [] then "" else "?" ^ Uri.encoded_of_query query in
  let body = Option.map Yojson.Safe.to_string body in
  let length = String.length (Option.value body ~default:"") in
  let host = match it.place with Socket _ -> "node" | Tls { host; port; _ } -> Printf.sprintf "%s:%d" host port in
  let headers =
    [ ("host", host); ("content-type", "application/json"); ("content-length", string_of_int length) ]
    @ [ ("connection", "close") ]
    @ headers
  in
  let stream = opened it seconds in
  let ended why =
    Failure.fail `Unavailable
      (Printf.sprintf
         "the node at %s ended before it answered (%s): the request may have been carried out"
         it.name why)
  in
  let answer () =
    let head = Printf.sprintf "%s %s HTTP/1.1\r\n" meth target in
    let lines = List.map (fun (name, value) -> name ^ ": " ^ value ^ "\r\n") headers in
    Io.write stream (String.concat "" ((head :: lines) @ [ "\r\n"; Option.value body ~default:"" ]));
    match Response.read stream with
    | `Eof -> ended "it closed the connection"
    | `Invalid why -> ended why
    | `Ok response ->
        let status = Cohttp.Code.code_of_status (Cohttp.Response.status response) in
        let reader = Response.make_body_reader response stream in
        let rec each got =
          match Response.read_body_chunk reader with
          | Done -> ()
          | Chunk piece ->
              got piece;
              each got
          | Final_chunk piece -> got piece
        in
        let has_body = Response.has_body response <> `No in
        if status >= 200 && status < 300 then (if has_body then each got)
        else
          let text = Buffer.create 256 in
          if has_body then each (Buffer.add_string text);
          Failure.refusal status (Buffer.contents text)
  in
  let answer () =
    try answer () with
    | Unix.Unix_error ((EAGAIN | EWOULDBLOCK), _, _) ->
        Failure.fail `Unavailable
          (Printf.sprintf "the node at %s did not answer within %.0f s" it.name seconds)
    | Unix.Unix_error (error, _, _) -> ended (Unix.error_message error)
    | Ssl.Read_error _ | Ssl.Write_error _ -> ended (Ssl.get_error_string ())
  in
  Fun.protect ~finally:stream.close answer
