(* Counters as rates. *)

(** What a port received and sent, a second; "received" from its own point of view. *)
type t = {
  time : float;  (** When the counters were looked at: seconds since 1970. *)
  seconds : float;  (** Seconds since the look before. *)
  name : string;  (** The interface or VNIC. *)
  link : string;
  rx_frames : float;
  rx_bytes : float;
  tx_frames : float;
  tx_bytes : float;
  dropped : float;  (** Frames dropped, of all reasons. *)
}

(* The rates between two looks. A switch that was replaced counts from 0. *)
let between (before : Models.Port_stats.t) (now : Models.Port_stats.t) time seconds =
  let each old recent =
    float_of_int (if recent >= old then recent - old else recent) /. seconds
  in
  let sum drops = List.fold_left (fun sum (_, count) -> sum + count) 0 drops in
  {
    time;
    seconds;
    name = now.name;
    link = now.link;
    rx_frames = each before.rx_frames now.rx_frames;
    rx_bytes = each before.rx_bytes now.rx_bytes;
    tx_frames = each before.tx_frames now.tx_frames;
    tx_bytes = each before.tx_bytes now.tx_bytes;
    dropped = each (sum before.drops) (sum now.drops);
  }
