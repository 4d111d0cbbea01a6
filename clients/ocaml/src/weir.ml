(** A client of Weir's node: network functions as tiny virtual machines. *)

module Dict = Dict
module Models = Models
module Rate = Rate

exception Error = Failure.Error

type t = Connection.t
(** A node: one host's links, VNICs, flows and guests. *)

(** The node with this path of a socket or this https://HOST:PORT; without one, that of WEIR_NODE, or
    of the socket in WEIR_RUN. A node on the network asks for a certificate: [cert] and [key] are the
    files of the client's own, [ca] is that of the authority that signed the node's (WEIR_CERT,
    WEIR_KEY, WEIR_CA). Nothing is sent. *)
let connect ?node ?cert ?key ?ca () : t =
  (* A node that ends while a request is written is an error, and not the end of this program. *)
  Sys.set_signal Sys.sigpipe Sys.Signal_ignore;
  Connection.make ?node ?cert ?key ?ca ()

include Operations

(* Acts on guests. If one fails, the others are still done, and its error is raised. *)
let all action node guests =
  let outcomes = ref [] in
  let body = Models.Guest_action.make ~action ~guests () in
  act_on_guests node body (fun outcome -> outcomes := outcome :: !outcomes);
  let outcomes = List.rev !outcomes in
  let error (outcome : Models.Guest_outcome.t) = outcome.error in
  (match List.find_map error outcomes with
  | Some { kind; error; field } -> Failure.fail ?field ~outcomes kind error
  | None -> ());
  outcomes

(** Starts guests, by names and patterns. *)
let start node guests = all `Start node guests

(** Ends guests, which stay stopped until they are started. *)
let stop node guests = all `Stop node guests

(** Ends guests and starts them again. *)
let restart node guests = all `Restart node guests

(** Has guests stand still, with all of their state. *)
let pause node guests = all `Pause node guests

(** Has guests go on that were paused. *)
let resume node guests = all `Resume node guests

(** Ends and removes guests. *)
let destroy node guests = all `Destroy node guests

(** Reads a handler, [ELEMENT.HANDLER], of a guest. *)
let read node guest handler =
  (read_handler node guest (Models.Handler_read.make ~handler)).value

(** Writes a handler of a guest. *)
let write node guest handler value =
  (write_handler node guest (Models.Handler_write.make ~handler ~value ())).value

let look node = function
  | [] -> list_stats node
  | ports -> List.map (fun port -> show_stats node port) ports

(** The rates of interfaces and VNICs, every [interval] seconds; without names, of all. *)
let rates ?(interval = 1.) node ports : Rate.t list Seq.t =
  let rec next before before_at () =
    Unix.sleepf interval;
    let now = look node ports and at = Unix.gettimeofday () in
    let rate (port : Models.Port_stats.t) =
      let is_same (old : Models.Port_stats.t) = old.name = port.name in
      let old = List.find_opt is_same before in
      Option.map (fun old -> Rate.between old port at (at -. before_at)) old
    in
    Seq.Cons (List.filter_map rate now, next now at)
  in
  fun () ->
    let before = look node ports in
    next before (Unix.gettimeofday ()) ()

(** The rates of a guest's VNICs, by the guest's names of its interfaces. *)
let guest_rates ?interval node guest : (string * Rate.t) list Seq.t =
 fun () ->
  let status = (show_guest node guest).status in
  let vnics = Option.value ~default:[] (Option.bind status (fun it -> it.vnics)) in
  let named rates (name, vnic) =
    let rate = List.find_opt (fun (rate : Rate.t) -> rate.name = vnic) rates in
    Option.map (fun rate -> (name, rate)) rate
  in
  let each rates = List.filter_map (named rates) vnics in
  Seq.map each (rates ?interval node (List.map snd vnics)) ()
