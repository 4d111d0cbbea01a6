(* Written by generate/generate.ml from the API's description. *)

module Action = struct
  type t = [ `Start | `Stop | `Restart | `Pause | `Resume | `Announce | `Template | `Destroy | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Start -> `String "start"
    | `Stop -> `String "stop"
    | `Restart -> `String "restart"
    | `Pause -> `String "pause"
    | `Resume -> `String "resume"
    | `Announce -> `String "announce"
    | `Template -> `String "template"
    | `Destroy -> `String "destroy"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "start" -> Ok `Start
    | `String "stop" -> Ok `Stop
    | `String "restart" -> Ok `Restart
    | `String "pause" -> Ok `Pause
    | `String "resume" -> Ok `Resume
    | `String "announce" -> Ok `Announce
    | `String "template" -> Ok `Template
    | `String "destroy" -> Ok `Destroy
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What is done with guests. *)

module Address = struct
  type t = {
    age : int option; [@yojson.default None] (** Seconds since it was last seen; none for one that does not age. *)
    mac : string; (** The address. *)
    port : string; (** The VNIC or interface that it is behind. *)
    vlan : int; (** Its VLAN; 0 for frames without a tag. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An address that a link's switch knows. *)

module Application_properties = struct
  type t = {
    conns : int option; [@yojson.default None] (** Most sockets at a time; default: as many as there can be. *)
    maxbw : string option; [@yojson.default None] (** Highest rate of its payload, both directions together; default: no limit. *)
    weight : int option; [@yojson.default None] (** Weight among the applications that have socket calls to pass on. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** What an application may have. *)

module Admission = struct
  type t = {
    name : string; (** The application's name. *)
    nsm : string; (** The NSM that its sockets are to go to. *)
    pid : int; (** The program's process: the application lasts at least as long. *)
    properties : Application_properties.t option; [@yojson.default None] (** What it may have: `maxbw`, `conns`, `weight`. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A program that is to become an application. *)

module Admitted = struct
  type t = {
    library : string; (** `LD_PRELOAD`: the library that redirects sockets. *)
    sock : string; (** `WEIR_SOCK`: where, and as which application, its processes join CoreEngine. It is a secret of the application. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** What an application's programs need in their environment. *)

module Intercept = struct
  type t = [ `Auto | `Preload | `Syscall | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Auto -> `String "auto"
    | `Preload -> `String "preload"
    | `Syscall -> `String "syscall"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "auto" -> Ok `Auto
    | `String "preload" -> Ok `Preload
    | `String "syscall" -> Ok `Syscall
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** How a program's socket calls come to its NSM. *)

module Restart = struct
  type t = [ `Always | `On_failure | `Never | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Always -> `String "always"
    | `On_failure -> `String "on-failure"
    | `Never -> `String "never"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "always" -> Ok `Always
    | `String "on-failure" -> Ok `On_failure
    | `String "never" -> Ok `Never
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** When a guest that ended is restarted. *)

module Application = struct
  type t = {
    directory : string option; [@yojson.default None] (** The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's own folder. *)
    environment : string Dict.t option; [@yojson.default None] (** Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user. *)
    intercept : Intercept.t option; [@yojson.default None] (** How the program's socket calls come to the NSM. *)
    nsm : string; (** The NSM that its new sockets go to. *)
    properties : Application_properties.t option; [@yojson.default None] (** What it may have: `maxbw`, `conns`, `weight`. *)
    restart : Restart.t option; [@yojson.default None] (** When the node restarts the program that it runs. *)
    run : string list option; [@yojson.default None] (** The program that the node runs, and its arguments, as a shell splits them; none: the program was started by `weir sock run`. *)
    user : string option; [@yojson.default None] (** The user that the program runs as, with the user's groups; default: the node's. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An application: a program, with its children, whose sockets an NSM serves. *)

module State = struct
  type t = [ `Up | `Down | `Unused | `Waiting | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Up -> `String "up"
    | `Down -> `String "down"
    | `Unused -> `String "unused"
    | `Waiting -> `String "waiting"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "up" -> Ok `Up
    | `String "down" -> Ok `Down
    | `String "unused" -> Ok `Unused
    | `String "waiting" -> Ok `Waiting
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** Whether something does what it is there for. *)

module Application_status = struct
  type t = {
    connections : int option; [@yojson.default None] (** Connections made and accepted. *)
    cpu_s : float option; [@yojson.key "cpu-s"] [@yojson.default None] (** Seconds of processor time that the process has used that it was started as, and its children that have ended. *)
    pid : int option; [@yojson.default None] (** The process that it was started as. *)
    processes : int option; [@yojson.default None] (** Processes of it that use sockets. *)
    reason : string option; [@yojson.default None] (** Why not. *)
    received : int option; [@yojson.default None] (** Bytes received. *)
    refused : int option; [@yojson.default None] (** Sockets refused, since the application or its NSM had as many as it may. *)
    restarts : int option; [@yojson.default None] (** Number of times that this node has restarted its program. *)
    sent : int option; [@yojson.default None] (** Bytes sent. *)
    sockets : int option; [@yojson.default None] (** Its sockets. *)
    state : State.t option; [@yojson.default None] (** Whether its program runs. *)
    violations : int option; [@yojson.default None] (** Queue elements that broke the protocol. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An application as it is. Counters run from its start, or the last one of CoreEngine. *)

module Application_object = struct
  type t = {
    directory : string option; [@yojson.default None] (** The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's own folder. *)
    environment : string Dict.t option; [@yojson.default None] (** Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user. *)
    intercept : Intercept.t option; [@yojson.default None] (** How the program's socket calls come to the NSM. *)
    name : string; (** Its name. *)
    nsm : string; (** The NSM that its new sockets go to. *)
    properties : Application_properties.t option; [@yojson.default None] (** What it may have: `maxbw`, `conns`, `weight`. *)
    restart : Restart.t option; [@yojson.default None] (** When the node restarts the program that it runs. *)
    run : string list option; [@yojson.default None] (** The program that the node runs, and its arguments, as a shell splits them; none: the program was started by `weir sock run`. *)
    status : Application_status.t option; [@yojson.default None]
    user : string option; [@yojson.default None] (** The user that the program runs as, with the user's groups; default: the node's. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An application: a program, with its children, whose sockets an NSM serves. *)

module Class = struct
  type t = [ `Nic | `Stub | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Nic -> `String "nic"
    | `Stub -> `String "stub"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "nic" -> Ok `Nic
    | `String "stub" -> Ok `Stub
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What a link is. *)

module Clones = struct
  type t = {
    count : int; (** How many; at most 100 000. *)
    first : int option; [@yojson.default None] (** The first one's number. *)
    name : string; (** Their name, with `{}` for the number. One copy needs none. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Copies of a guest that are to be made. *)

module Configuration = struct
  type t = {
    config : string option; [@yojson.default None] (** The configuration, in Click's language. A list of guests leaves it out. *)
    file : string option; [@yojson.default None] (** Its file: in a wire's file it is read from there; in the API it is the configuration's name in messages. *)
    variables : string Dict.t option; [@yojson.default None] (** Values of its variables, or of a function's parameters, which are its own. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A configuration that a guest runs beside its main one. *)

module Configuration_state = struct
  type t = [ `Running | `Halted | `Error | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Running -> `String "running"
    | `Halted -> `String "halted"
    | `Error -> `String "error"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "running" -> Ok `Running
    | `String "halted" -> Ok `Halted
    | `String "error" -> Ok `Error
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** State of one of the configurations that a guest runs. *)

module Crash_report = struct
  type t = {
    config_hash : string; [@yojson.key "config-hash"] (** CRC-32 of the configuration with its variables, in hexadecimal: equal configurations have equal ones. *)
    console : string list option; [@yojson.default None] (** The last lines that it printed. A list leaves them out. *)
    cpu : int option; [@yojson.default None] (** The vCPU, if it has several. *)
    element : string option; [@yojson.default None] (** The element that it reported to run, with its line in the configuration. *)
    guest : string; (** The guest. *)
    number : int; (** Its number, which no other report has. *)
    reason : string; (** How it ended: a sentence. *)
    registers : string Dict.t option; [@yojson.default None] (** Registers by their names, in hexadecimal. A list leaves them out. *)
    symbol : string option; [@yojson.default None] (** Function and offset of the instruction. *)
    time : string; (** When the node noticed the crash (RFC 3339). *)
    uptime : float option; [@yojson.default None] (** Seconds that it ran. *)
    version : string; (** The version of the node. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** How a guest crashed. *)

module Entry_status = struct
  type t = {
    age : int option; [@yojson.default None] (** Seconds since the other direction of a learned one was last seen; none if it was made by command. *)
    state : State.t option; [@yojson.default None] (** Whether frames go by it: its port may be down. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An entry as it is. *)

module Entry = struct
  type t = {
    flow : string; (** The flow, in one direction, in ovs-ofctl's words. *)
    port : string; (** The VNIC, or the link's own interface, that it goes to. *)
    status : Entry_status.t option; [@yojson.default None] (** Its status; ignored in a request. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An entry of a flow table: the port of a link that a flow goes to. *)

module Kind = struct
  type t = [ `Invalid | `Forbidden | `Not_found | `Not_allowed | `Late | `Exists | `In_use | `Too_large | `Not_json | `Refused | `Unavailable | `Failed | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Invalid -> `String "invalid"
    | `Forbidden -> `String "forbidden"
    | `Not_found -> `String "not-found"
    | `Not_allowed -> `String "not-allowed"
    | `Late -> `String "late"
    | `Exists -> `String "exists"
    | `In_use -> `String "in-use"
    | `Too_large -> `String "too-large"
    | `Not_json -> `String "not-json"
    | `Refused -> `String "refused"
    | `Unavailable -> `String "unavailable"
    | `Failed -> `String "failed"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "invalid" -> Ok `Invalid
    | `String "forbidden" -> Ok `Forbidden
    | `String "not-found" -> Ok `Not_found
    | `String "not-allowed" -> Ok `Not_allowed
    | `String "late" -> Ok `Late
    | `String "exists" -> Ok `Exists
    | `String "in-use" -> Ok `In_use
    | `String "too-large" -> Ok `Too_large
    | `String "not-json" -> Ok `Not_json
    | `String "refused" -> Ok `Refused
    | `String "unavailable" -> Ok `Unavailable
    | `String "failed" -> Ok `Failed
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What kind of thing went wrong. *)

module Error = struct
  type t = {
    error : string; (** What was wrong, where, and what would be right. *)
    field : string option; [@yojson.default None] (** The field of the request that is wrong, if it is one. *)
    kind : Kind.t; (** What kind of thing went wrong. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Why the node did not do what was asked, as the API answers it. *)

module Happened = struct
  type t = [ `Created | `Changed | `Removed | `Started | `Running | `Ended | `Crashed | `Restarted | `Stopped | `Paused | `Resumed | `Saved | `Template | `Arrived | `Left | `In_doubt | `Renamed | `Installed | `Uninstalled | `Unhealthy | `Healthy | `Up | `Down | `Applied | `Lost | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Created -> `String "created"
    | `Changed -> `String "changed"
    | `Removed -> `String "removed"
    | `Started -> `String "started"
    | `Running -> `String "running"
    | `Ended -> `String "ended"
    | `Crashed -> `String "crashed"
    | `Restarted -> `String "restarted"
    | `Stopped -> `String "stopped"
    | `Paused -> `String "paused"
    | `Resumed -> `String "resumed"
    | `Saved -> `String "saved"
    | `Template -> `String "template"
    | `Arrived -> `String "arrived"
    | `Left -> `String "left"
    | `In_doubt -> `String "in-doubt"
    | `Renamed -> `String "renamed"
    | `Installed -> `String "installed"
    | `Uninstalled -> `String "uninstalled"
    | `Unhealthy -> `String "unhealthy"
    | `Healthy -> `String "healthy"
    | `Up -> `String "up"
    | `Down -> `String "down"
    | `Applied -> `String "applied"
    | `Lost -> `String "lost"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "created" -> Ok `Created
    | `String "changed" -> Ok `Changed
    | `String "removed" -> Ok `Removed
    | `String "started" -> Ok `Started
    | `String "running" -> Ok `Running
    | `String "ended" -> Ok `Ended
    | `String "crashed" -> Ok `Crashed
    | `String "restarted" -> Ok `Restarted
    | `String "stopped" -> Ok `Stopped
    | `String "paused" -> Ok `Paused
    | `String "resumed" -> Ok `Resumed
    | `String "saved" -> Ok `Saved
    | `String "template" -> Ok `Template
    | `String "arrived" -> Ok `Arrived
    | `String "left" -> Ok `Left
    | `String "in-doubt" -> Ok `In_doubt
    | `String "renamed" -> Ok `Renamed
    | `String "installed" -> Ok `Installed
    | `String "uninstalled" -> Ok `Uninstalled
    | `String "unhealthy" -> Ok `Unhealthy
    | `String "healthy" -> Ok `Healthy
    | `String "up" -> Ok `Up
    | `String "down" -> Ok `Down
    | `String "applied" -> Ok `Applied
    | `String "lost" -> Ok `Lost
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What happened. *)

module Topic = struct
  type t = [ `Node | `Switch | `Store | `Link | `Stub | `Vnic | `Patch | `Flow | `Guest | `Wire | `Namespace | `Core_engine | `Nsm | `Application | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Node -> `String "node"
    | `Switch -> `String "switch"
    | `Store -> `String "store"
    | `Link -> `String "link"
    | `Stub -> `String "stub"
    | `Vnic -> `String "vnic"
    | `Patch -> `String "patch"
    | `Flow -> `String "flow"
    | `Guest -> `String "guest"
    | `Wire -> `String "wire"
    | `Namespace -> `String "namespace"
    | `Core_engine -> `String "core-engine"
    | `Nsm -> `String "nsm"
    | `Application -> `String "application"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "node" -> Ok `Node
    | `String "switch" -> Ok `Switch
    | `String "store" -> Ok `Store
    | `String "link" -> Ok `Link
    | `String "stub" -> Ok `Stub
    | `String "vnic" -> Ok `Vnic
    | `String "patch" -> Ok `Patch
    | `String "flow" -> Ok `Flow
    | `String "guest" -> Ok `Guest
    | `String "wire" -> Ok `Wire
    | `String "namespace" -> Ok `Namespace
    | `String "core-engine" -> Ok `Core_engine
    | `String "nsm" -> Ok `Nsm
    | `String "application" -> Ok `Application
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What kind of thing an event is of. *)

module Event = struct
  type t = {
    by : string option; [@yojson.default None] (** Whose request it was: `root`, or another user of the API; none if it was nobody's. *)
    event : Happened.t; (** What happened. *)
    name : string option; [@yojson.default None] (** The name of that; none if there is only one. *)
    note : string option; [@yojson.default None] (** What the node does about it, or what else is to be known. *)
    number : int; (** Its number, which is higher than that of any earlier event, also of an earlier node. *)
    reason : string option; [@yojson.default None] (** Why. *)
    time : string; (** When it happened (RFC 3339). *)
    topic : Topic.t; (** What kind of thing it happened to. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Something that happened. *)

module Flow_attributes = struct
  type t = {
    dsfield : string option; [@yojson.default None] (** Differentiated services field. *)
    local_ip : string option; [@yojson.default None] (** Local IP address or prefix. *)
    local_port : int option; [@yojson.default None] (** Local TCP, UDP or SCTP port. *)
    remote_ip : string option; [@yojson.default None] (** Remote IP address or prefix. *)
    remote_port : int option; [@yojson.default None] (** Remote TCP, UDP or SCTP port. *)
    transport : string option; [@yojson.default None] (** Transport protocol. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Which frames belong to a flow, by flowadm's names; at least one. *)

module Flow_properties = struct
  type t = {
    maxbw : string option; [@yojson.default None] (** Highest rate, both directions together; default: no limit. *)
    priority : string option; [@yojson.default None] (** Level of the flow's frames; default: the port's. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Limit and priority of a flow. *)

module Flow = struct
  type t = {
    attributes : Flow_attributes.t; (** Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` … *)
    link : string; (** The link, stub or VNIC that it is on. *)
    properties : Flow_properties.t option; [@yojson.default None] (** Its limit and priority. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A class of traffic on a link or VNIC. *)

module Flow_status = struct
  type t = {
    reason : string option; [@yojson.default None] (** Why not. *)
    state : State.t option; [@yojson.default None] (** Whether it works. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A flow as it is. *)

module Flow_object = struct
  type t = {
    attributes : Flow_attributes.t; (** Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` … *)
    link : string; (** The link, stub or VNIC that it is on. *)
    name : string; (** Its name. *)
    properties : Flow_properties.t option; [@yojson.default None] (** Its limit and priority. *)
    status : Flow_status.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** A class of traffic on a link or VNIC. *)

module Flow_stats = struct
  type t = {
    bytes : int; (** Bytes of the flow that passed. *)
    dropped : int; (** Frames dropped since too many waited. *)
    frames : int; (** Frames of the flow that passed. *)
    held : int; (** Frames that waited for the flow's limit. *)
    link : string; (** The link or VNIC that it is on. *)
    name : string; (** Its name. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Counters of a flow. *)

module Isolation = struct
  type t = [ `Vm | `Process | `Auto | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Vm -> `String "vm"
    | `Process -> `String "process"
    | `Auto -> `String "auto"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "vm" -> Ok `Vm
    | `String "process" -> Ok `Process
    | `String "auto" -> Ok `Auto
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** The wall around a guest. *)

module Guest = struct
  type t = {
    config : string option; [@yojson.default None] (** The configuration, in Click's language. A list of guests leaves it out. *)
    configurations : Configuration.t Dict.t option; [@yojson.default None] (** Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`. *)
    cpu_max : float option; [@yojson.key "cpu-max"] [@yojson.default None] (** Processors of the host that its process may use, as in 0.5; default: all. *)
    cpus : int option; [@yojson.default None] (** Virtual CPUs; default: 1. *)
    file : string option; [@yojson.default None] (** The file of its configuration. In a wire's file it is read from there, relative to the wire's own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is needed beside it. *)
    health : string list option; [@yojson.default None] (** Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is unhealthy after so many failures in a row. One that may be restarted is restarted then. *)
    interfaces : string Dict.t option; [@yojson.default None] (** By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is removed with the guest. *)
    isolation : Isolation.t option; [@yojson.default None] (** The wall around it. *)
    memory : string option; [@yojson.default None] (** Private memory, in bytes, or with K, M or G; default: 4 MiB. *)
    memory_max : string option; [@yojson.key "memory-max"] [@yojson.default None] (** Memory that its process may use, its private memory included; default: no limit. *)
    nsm : string option; [@yojson.default None] (** The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none. *)
    pin : int list option; [@yojson.default None] (** CPUs of the host that those are tied to, one each in turn; without any, they run on all. *)
    restart : Restart.t option; [@yojson.default None] (** When it is restarted; default: `on-failure`. *)
    ring_slots : int option; [@yojson.key "ring-slots"] [@yojson.default None] (** Slots of each of its rings, a power of two from 64 to 2048; default: 256. *)
    variables : string Dict.t option; [@yojson.default None] (** Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network function in a virtual machine. *)

module Guest_action = struct
  type t = {
    action : Action.t; (** What is done. *)
    guests : string list; (** Names, and patterns such as `fw-*`: `*` stands for any characters, `?` for one, `[a-c]` for one of those. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An action on guests. *)

module Guest_state = struct
  type t = [ `Starting | `Running | `Paused | `Template | `Silent | `Unhealthy | `Stopped | `Halted | `Crashed | `Arriving | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Starting -> `String "starting"
    | `Running -> `String "running"
    | `Paused -> `String "paused"
    | `Template -> `String "template"
    | `Silent -> `String "silent"
    | `Unhealthy -> `String "unhealthy"
    | `Stopped -> `String "stopped"
    | `Halted -> `String "halted"
    | `Crashed -> `String "crashed"
    | `Arriving -> `String "arriving"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "starting" -> Ok `Starting
    | `String "running" -> Ok `Running
    | `String "paused" -> Ok `Paused
    | `String "template" -> Ok `Template
    | `String "silent" -> Ok `Silent
    | `String "unhealthy" -> Ok `Unhealthy
    | `String "stopped" -> Ok `Stopped
    | `String "halted" -> Ok `Halted
    | `String "crashed" -> Ok `Crashed
    | `String "arriving" -> Ok `Arriving
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** State of a guest. *)

module Guest_status = struct
  type t = {
    boot_ms : float option; [@yojson.key "boot-ms"] [@yojson.default None] (** Milliseconds from the order to start it to its main loop; none if this node adopted it. *)
    configurations : Configuration_state.t Dict.t option; [@yojson.default None] (** The state of each configuration that it runs, if there are several. Its main one is `main`. *)
    cpu_s : float option; [@yojson.key "cpu-s"] [@yojson.default None] (** Seconds of processor time that its process has used. *)
    domain_id : int option; [@yojson.key "domain-id"] [@yojson.default None] (** Its number in the control store, where it is a domain while it runs. *)
    id : int option; [@yojson.default None] (** Its number; never given twice. *)
    messages : string option; [@yojson.default None] (** Warnings about its configuration; in the answer to its creation or change only. *)
    pending : string list option; [@yojson.default None] (** Fields that were changed while it runs, and hold from its next start on. *)
    pid : int option; [@yojson.default None] (** Its process. *)
    reason : string option; [@yojson.default None] (** How it ended. *)
    resident : int option; [@yojson.default None] (** Bytes of memory that its process has in use, shared pages included. *)
    restarts : int option; [@yojson.default None] (** Number of times that this node has restarted it. *)
    state : Guest_state.t option; [@yojson.default None] (** Its state. *)
    uptime_s : float option; [@yojson.key "uptime-s"] [@yojson.default None] (** Seconds that it has run. *)
    vnics : string Dict.t option; [@yojson.default None] (** The VNIC of each interface. *)
    wall : string option; [@yojson.default None] (** The wall that it has got: `vm` or `process`. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A guest as it is. *)

module Guest_object = struct
  type t = {
    config : string option; [@yojson.default None] (** The configuration, in Click's language. A list of guests leaves it out. *)
    configurations : Configuration.t Dict.t option; [@yojson.default None] (** Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`. *)
    cpu_max : float option; [@yojson.key "cpu-max"] [@yojson.default None] (** Processors of the host that its process may use, as in 0.5; default: all. *)
    cpus : int option; [@yojson.default None] (** Virtual CPUs; default: 1. *)
    file : string option; [@yojson.default None] (** The file of its configuration. In a wire's file it is read from there, relative to the wire's own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is needed beside it. *)
    health : string list option; [@yojson.default None] (** Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is unhealthy after so many failures in a row. One that may be restarted is restarted then. *)
    interfaces : string Dict.t option; [@yojson.default None] (** By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is removed with the guest. *)
    isolation : Isolation.t option; [@yojson.default None] (** The wall around it. *)
    memory : string option; [@yojson.default None] (** Private memory, in bytes, or with K, M or G; default: 4 MiB. *)
    memory_max : string option; [@yojson.key "memory-max"] [@yojson.default None] (** Memory that its process may use, its private memory included; default: no limit. *)
    name : string; (** Its name. *)
    nsm : string option; [@yojson.default None] (** The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none. *)
    pin : int list option; [@yojson.default None] (** CPUs of the host that those are tied to, one each in turn; without any, they run on all. *)
    restart : Restart.t option; [@yojson.default None] (** When it is restarted; default: `on-failure`. *)
    ring_slots : int option; [@yojson.key "ring-slots"] [@yojson.default None] (** Slots of each of its rings, a power of two from 64 to 2048; default: 256. *)
    status : Guest_status.t option; [@yojson.default None]
    variables : string Dict.t option; [@yojson.default None] (** Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network function in a virtual machine. *)

module Guest_outcome = struct
  type t = {
    error : Error.t option; [@yojson.default None]
    guest : string; (** Its name, or a pattern that no guest has. *)
    status : Guest_status.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** What became of one guest. *)

module Guest_series = struct
  type t = {
    count : int; (** How many; at most 100 000. *)
    first : int option; [@yojson.default None] (** The first one's number. *)
    guest : Guest.t; (** The guest. In the VNICs and links of its interfaces, `{}` is the number, too. *)
    name : string; (** Their name, with `{}` for the number. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Guests that differ by a number. *)

module Handler_read = struct
  type t = {
    handler : string; (** `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own, with its argument behind a space. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A handler to be read. *)

module Handler_value = struct
  type t = {
    value : string; (** Its value; bytes that are no text are replaced. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** The value of a handler. *)

module Handler_write = struct
  type t = {
    handler : string; (** `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own. *)
    value : string option; [@yojson.default None] (** The value. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A handler to be written. *)

module Lane_stats = struct
  type t = {
    asleep : int; (** Nanoseconds asleep. *)
    busy : int; (** Nanoseconds of rounds that moved frames. *)
    by_poll : int; [@yojson.key "by-poll"] (** Frames picked up while their queue was polled. *)
    by_wakeup : int; [@yojson.key "by-wakeup"] (** Frames picked up first thing after a wake-up. *)
    chains_10_to_50 : int; [@yojson.key "chains-10-to-50"] (** Chains of 10 to 50 frames picked up at once. *)
    chains_over_50 : int; [@yojson.key "chains-over-50"] (** Chains of more than 50 frames picked up at once. *)
    chains_under_10 : int; [@yojson.key "chains-under-10"] (** Chains of fewer than 10 frames picked up at once. *)
    cpu : int option; [@yojson.default None] (** CPU that it keeps to, if it does. *)
    frames : int; (** Frames that the lane picked up. *)
    handoff_drops : int; [@yojson.key "handoff-drops"] (** Frames from other lanes whose port was gone or had moved meanwhile. *)
    handoffs : int; (** Frames that came from other lanes. *)
    idle : int; (** Nanoseconds of rounds that found none. *)
    lane : int; (** Its number. *)
    queues : int; (** Queues that it serves. *)
    wakeups : int; (** Times that the lane slept until something woke it. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Counters of one lane of the switch. *)

module Mode = struct
  type t = [ `Auto | `Xdp | `Packet | `Tap | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Auto -> `String "auto"
    | `Xdp -> `String "xdp"
    | `Packet -> `String "packet"
    | `Tap -> `String "tap"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "auto" -> Ok `Auto
    | `String "xdp" -> Ok `Xdp
    | `String "packet" -> Ok `Packet
    | `String "tap" -> Ok `Tap
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** How an interface of the host is attached. *)

module Port_properties = struct
  type t = {
    allowed_ips : string list option; [@yojson.key "allowed-ips"] [@yojson.default None] (** IP addresses of the port, for `ip-nospoof` and for a guest that is started on demand. *)
    cpus : int list option; [@yojson.default None] (** CPUs whose lanes may serve the port; default: any. *)
    delay : string option; [@yojson.default None] (** Delay of each frame to the port. *)
    flood_limit : int option; [@yojson.key "flood-limit"] [@yojson.default None] (** Highest rate of broadcast, multicast and unknown unicast frames that the port sends. *)
    jitter : string option; [@yojson.default None] (** Variation of the delay, up and down; frames stay in order. *)
    lanes : int option; [@yojson.default None] (** Number of lanes that serve the port; default: one for each queue, or all of `cpus`. *)
    loss : string option; [@yojson.default None] (** Share of the frames to the port that is lost. *)
    maxbw : string option; [@yojson.default None] (** Highest rate in each direction; default: no limit. *)
    mtu : int option; [@yojson.default None] (** Largest IP packet; default: the link's. *)
    priority : string option; [@yojson.default None] (** Level of the port: a higher level is always served first. *)
    protection : string list option; [@yojson.default None] (** Frames that the port must not send; they are dropped and counted. *)
    settle : string option; [@yojson.default None] (** Whether the guest may settle flows, whose packets the kernel then passes on by itself; on both VNICs between which they go. *)
    share : int option; [@yojson.default None] (** Weight among the ports of the same domain and level. *)
    vlan : int option; [@yojson.default None] (** VLAN of an access port: its frames are untagged and belong to this VLAN. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Properties of a port: speed, delay, loss, VLAN, protection and so on. *)

module Switch_properties = struct
  type t = {
    aging : int option; [@yojson.default None] (** Seconds after which an unused address is removed. *)
    lookup : Yojson.Safe.t option; [@yojson.default None] (** The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. *)
    mac_limit : int option; [@yojson.key "mac-limit"] [@yojson.default None] (** Highest number of addresses learned for one port. *)
    speed : string option; [@yojson.default None] (** Highest rate in each direction of each port without a `maxbw` of its own. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Properties of a switch. *)

module Neighbor = struct
  type t = {
    ips : string list option; [@yojson.default None] (** Its IPv4 addresses. *)
    mac : string; (** The address. *)
    remote : string; (** The other host, one of the remotes. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An Ethernet address behind another host. Frames to it, and ARP requests for its IP addresses, go to that host alone. *)

module Tunnel = struct
  type t = {
    local : string option; [@yojson.default None] (** This host's address; without one, any. *)
    neighbors : Neighbor.t list option; [@yojson.default None] (** Ethernet addresses that are known to be behind them; others are learned. *)
    port : int option; [@yojson.default None] (** The UDP port, here and there; without one, 4789. *)
    remotes : string list; (** The other hosts' addresses, all IPv4 or all IPv6. There may be none yet. *)
    vni : int; (** The network's number, 24 bits. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network with other hosts by VXLAN (RFC 7348), as a link reaches it. *)

module Link = struct
  type t = {
    device : string option; [@yojson.default None] (** The host's interface; without one, that of the link's name. With `vxlan` there is none. *)
    mode : Mode.t option; [@yojson.default None] (** How the interface is attached. *)
    port : Port_properties.t option; [@yojson.default None] (** Properties of the interface's port: `lanes`, `maxbw` and so on. *)
    properties : Switch_properties.t option; [@yojson.default None] (** Properties of the switch. *)
    vxlan : Tunnel.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** A switch with a NIC: an interface of the host, or other hosts by VXLAN. *)

module Link_status = struct
  type t = {
    class_ : Class.t option; [@yojson.key "class"] [@yojson.default None] (** Link or stub. *)
    mode : string option; [@yojson.default None] (** The kind of its port, as `packet`; none for a stub. *)
    mtu : int option; [@yojson.default None] (** Largest IP packet, in bytes. *)
    reason : string option; [@yojson.default None] (** Why not. *)
    state : State.t option; [@yojson.default None] (** Whether it works. *)
    vnics : int option; [@yojson.default None] (** Number of VNICs on it. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A link or stub as it is. *)

module Link_object = struct
  type t = {
    device : string option; [@yojson.default None] (** The host's interface; without one, that of the link's name. With `vxlan` there is none. *)
    mode : Mode.t option; [@yojson.default None] (** How the interface is attached. *)
    name : string; (** Its name. *)
    port : Port_properties.t option; [@yojson.default None] (** Properties of the interface's port: `lanes`, `maxbw` and so on. *)
    properties : Switch_properties.t option; [@yojson.default None] (** Properties of the switch. *)
    status : Link_status.t option; [@yojson.default None]
    vxlan : Tunnel.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** A switch with a NIC: an interface of the host, or other hosts by VXLAN. *)

module Log_line = struct
  type t = {
    guest : string; (** The guest. *)
    line : string; (** The line, with control characters escaped. *)
    lost : int option; [@yojson.default None] (** Bytes of text that were lost here, which the line says; the guest printed more than its console holds. *)
    number : int; (** Its number; lines of all guests are numbered in the order in which the node took them. *)
    time : string; (** When the node took it from the guest's console (RFC 3339). *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** One line that a guest printed. *)

module Migrate = struct
  type t = {
    links : string Dict.t option; [@yojson.default None] (** Links of the other node by the guest's interfaces; default: those of the same names. *)
    to_ : string; [@yojson.key "to"] (** The other node, as `HOST:PORT`. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Where a guest is to go on. *)

module Migrated = struct
  type t = {
    blackout_ms : float; [@yojson.key "blackout-ms"] (** Milliseconds from the order to stand still to the other node's word that it runs there. *)
    bytes : int; (** Bytes that were sent. *)
    last_bytes : int; [@yojson.key "last-bytes"] (** Bytes of them that were sent while it stood still. *)
    late_frames : int; [@yojson.key "late-frames"] (** Frames that came meanwhile, and followed it. *)
    rounds : int; (** Rounds of copying while it ran. *)
    total_ms : float; [@yojson.key "total-ms"] (** Milliseconds from the request to the end. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** How a guest was migrated. *)

module Namespace = struct
  type t = {
    existing : bool option; [@yojson.default None] (** Whether it is there already: then the wire neither makes nor removes it. *)
    forwarding : bool option; [@yojson.default None] (** Whether it forwards IP packets between its interfaces. *)
    routes : string list option; [@yojson.default None] (** Its routes, besides the routes that follow from its addresses. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network namespace, as `ip netns` knows it. *)

module Unknown_guest = struct
  type t = {
    name : string; (** The name that it was started with. *)
    pid : int; (** Its process. *)
    started : int; (** When that was started, in clock ticks since the boot of the machine. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A guest that an earlier node started and of which no record is left. *)

module Node_status = struct
  type t = {
    applications : int option; [@yojson.default None] (** Applications whose sockets network stack modules serve. *)
    core_pid : int option; [@yojson.key "core-pid"] [@yojson.default None] (** CoreEngine's process, which switches between applications and network stack modules; none without any of these. *)
    damaged : string list option; [@yojson.default None] (** Records of the state that are damaged, as in `guests/fw`. Their resources are not there; the others are. *)
    flows : int; (** Flows. *)
    guests : int; (** Guests. *)
    links : int; (** Links, stubs included. *)
    nsms : int option; [@yojson.default None] (** Network stack modules. *)
    pid : int; (** Its process. *)
    settled_flows : int; [@yojson.key "settled-flows"] (** Flows whose packets the kernel passes on, in one direction each. *)
    store_pid : int option; [@yojson.key "store-pid"] [@yojson.default None] (** The control store's process; none while there is none. *)
    switch_pid : int option; [@yojson.key "switch-pid"] [@yojson.default None] (** The switch's process; none while there is none. *)
    switch_restarts : int; [@yojson.key "switch-restarts"] (** Number of times that this node had to start a switch because the last one ended. *)
    unknown_guests : Unknown_guest.t list option; [@yojson.key "unknown-guests"] [@yojson.default None] (** Guests that run and of which no record is left. *)
    version : string; (** Its version. *)
    vnics : int; (** VNICs. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** The node itself. *)

module Nsm_kind = struct
  type t = [ `Kernel | `User | `Shm | `Program | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Kernel -> `String "kernel"
    | `User -> `String "user"
    | `Shm -> `String "shm"
    | `Program -> `String "program"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "kernel" -> Ok `Kernel
    | `String "user" -> Ok `User
    | `String "shm" -> Ok `Shm
    | `String "program" -> Ok `Program
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What an NSM's network stack is. *)

module Others = struct
  type t = [ `Unreachable | `Refused | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Unreachable -> `String "unreachable"
    | `Refused -> `String "refused"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "unreachable" -> Ok `Unreachable
    | `String "refused" -> Ok `Refused
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What connections of an shm NSM to addresses that are not its own fail with. *)

module Nsm_properties = struct
  type t = {
    conns : int option; [@yojson.default None] (** Most sockets at a time; default: as many as there can be. *)
    maxbw : string option; [@yojson.default None] (** Highest rate of payload, both directions together; default: no limit. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** What an NSM may have, for all its applications together. *)

module Nsm = struct
  type t = {
    addresses : string list option; [@yojson.default None] (** Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the loopback's. *)
    cores : int option; [@yojson.default None] (** Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it. *)
    gateways : string list option; [@yojson.default None] (** Of a user NSM: the routers for what is in none of its networks, at most one of each IP version. *)
    kind : Nsm_kind.t option; [@yojson.default None] (** What its network stack is. *)
    link : string option; [@yojson.default None] (** Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it. *)
    local : bool option; [@yojson.default None] (** Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack. *)
    namespace : string option; [@yojson.default None] (** Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own, `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's. *)
    others : Others.t option; [@yojson.default None] (** Of an shm NSM: what connections to addresses that are not its own fail with. *)
    properties : Nsm_properties.t option; [@yojson.default None] (** What it may have, for all its applications together: `maxbw`, `conns`. *)
    run : string list option; [@yojson.default None] (** Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in `WEIR_NSM_TOKEN`. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network stack module: a process whose network stack serves the sockets of applications. *)

module Nsm_status = struct
  type t = {
    answers : int option; [@yojson.default None] (** Queue elements that the NSM gave. *)
    applications : int option; [@yojson.default None] (** Applications whose new sockets go to it. *)
    connections : int option; [@yojson.default None] (** Connections made and accepted. *)
    cpu_s : float option; [@yojson.key "cpu-s"] [@yojson.default None] (** Seconds of processor time that its process has used. *)
    namespace : string option; [@yojson.default None] (** The network namespace that it is in, if its kind has one. *)
    pid : int option; [@yojson.default None] (** Its process. *)
    reason : string option; [@yojson.default None] (** Why not. *)
    received : int option; [@yojson.default None] (** Bytes that the NSM received. *)
    refused : int option; [@yojson.default None] (** Sockets and connections that were refused, since the NSM had as many as it may. *)
    requests : int option; [@yojson.default None] (** Queue elements given to the NSM. *)
    resident : int option; [@yojson.default None] (** Bytes of memory that its process has in use, those of applications' payload included. *)
    restarts : int option; [@yojson.default None] (** Number of times that this node has restarted it. *)
    sent : int option; [@yojson.default None] (** Bytes that the NSM was given to send. *)
    sockets : int option; [@yojson.default None] (** Its sockets. *)
    state : State.t option; [@yojson.default None] (** Whether it serves. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** An NSM as it is. *)

module Nsm_object = struct
  type t = {
    addresses : string list option; [@yojson.default None] (** Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the loopback's. *)
    cores : int option; [@yojson.default None] (** Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it. *)
    gateways : string list option; [@yojson.default None] (** Of a user NSM: the routers for what is in none of its networks, at most one of each IP version. *)
    kind : Nsm_kind.t option; [@yojson.default None] (** What its network stack is. *)
    link : string option; [@yojson.default None] (** Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it. *)
    local : bool option; [@yojson.default None] (** Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack. *)
    name : string; (** Its name. *)
    namespace : string option; [@yojson.default None] (** Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own, `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's. *)
    others : Others.t option; [@yojson.default None] (** Of an shm NSM: what connections to addresses that are not its own fail with. *)
    properties : Nsm_properties.t option; [@yojson.default None] (** What it may have, for all its applications together: `maxbw`, `conns`. *)
    run : string list option; [@yojson.default None] (** Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in `WEIR_NSM_TOKEN`. *)
    status : Nsm_status.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** A network stack module: a process whose network stack serves the sockets of applications. *)

module Trigger = struct
  type t = [ `First_packet | `Flow | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `First_packet -> `String "first-packet"
    | `Flow -> `String "flow"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "first-packet" -> Ok `First_packet
    | `String "flow" -> Ok `Flow
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What starts a guest. *)

module On_demand = struct
  type t = {
    guests : int option; [@yojson.default None] (** With `flow`, how many connections may have guests of their own at a time, from 1 to 4096; default: 64. *)
    idle : string option; [@yojson.default None] (** Time without a frame to or from its VNICs, from 1s to 1day, after which it is removed; default: 1m. The VNIC waits for the next frame then. *)
    interface : string option; [@yojson.default None] (** The template's interface that the VNIC is; default: its only one, or its only one on the VNIC's link. The others get VNICs on the links of the template's. *)
    on : Trigger.t option; [@yojson.default None] (** What starts it. *)
    template : string; (** The guest that it is a copy of. If that stands still as a template, the copy goes on from there; else it boots that guest's configuration. *)
    variables : string Dict.t option; [@yojson.default None] (** Values of the configuration's variables instead of the template's. With any, the guest boots. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A guest that does not exist before it is needed: the copy of another guest, with the VNIC's name. *)

module Patch = struct
  type t = {
    back : Port_properties.t option; [@yojson.default None]
    between : string list; (** The two stubs or links. *)
    properties : Port_properties.t option; [@yojson.default None] (** Properties from the first to the second; also back, unless `back` is given. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A wire between two switches. *)

module Port_stats = struct
  type t = {
    by_poll : int; [@yojson.key "by-poll"] (** Frames that the switch took from the port while polling it. *)
    by_wakeup : int; [@yojson.key "by-wakeup"] (** Frames that the switch took from the port first thing after a wake-up. *)
    chains_10_to_50 : int; [@yojson.key "chains-10-to-50"] (** Chains of 10 to 50 frames that the switch took from the port at once. *)
    chains_over_50 : int; [@yojson.key "chains-over-50"] (** Chains of more than 50 frames that the switch took from the port at once. *)
    chains_under_10 : int; [@yojson.key "chains-under-10"] (** Chains of fewer than 10 frames that the switch took from the port at once. *)
    drops : int Dict.t; (** Frames dropped, by reason; none that never happened. *)
    lane : int option; [@yojson.default None] (** The lane that counted it, if it is one's counters alone. *)
    link : string; (** The link. *)
    name : string; (** The interface or VNIC; for a patch WIRE/PATCH:a or b, as ‘between’ names its ends. *)
    rx_bytes : int; [@yojson.key "rx-bytes"] (** Bytes received, from the Ethernet header on. *)
    rx_frames : int; [@yojson.key "rx-frames"] (** Frames received. *)
    tx_bytes : int; [@yojson.key "tx-bytes"] (** Bytes sent, from the Ethernet header on. *)
    tx_frames : int; [@yojson.key "tx-frames"] (** Frames sent. *)
    wakeups : int; (** Times that the port went from sleeping to being polled. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Counters of a link's interface, of a VNIC or of an end of a wire's patch, since it was attached to the switch that runs.  "Received" is from its own point of view: from the wire for an interface, from the switch for a VNIC or a patch. *)

module Purge = struct
  type t = {
    confirm : bool option; [@yojson.default None] (** Has to be true. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** The confirmation that everything is to be removed. *)

module Rename = struct
  type t = {
    name : string; (** The name. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Another name for a guest. *)

module Restore = struct
  type t = {
    file : string; (** The file, by its path on the node's host. *)
    name : string option; [@yojson.default None] (** Another name for the guest. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A saved guest that is to go on. *)

module Save = struct
  type t = {
    file : string; (** The file, by its path on the node's host. An existing one is replaced. *)
    keep : bool option; [@yojson.default None] (** Whether the guest goes on. Otherwise it is stopped, and can be restored as if nothing had happened but time. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** Where a guest is saved to. *)

module Saved = struct
  type t = {
    bytes : int; (** Its length in bytes. *)
    file : string; (** Its path. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A file that a guest was saved to. *)

module Settled_flow = struct
  type t = {
    bytes : int; (** Their bytes. *)
    destination : string; (** The receiver's. *)
    idle_ms : int; [@yojson.key "idle-ms"] (** Milliseconds since the last one. *)
    link : string option; [@yojson.default None] (** The link by whose interface they come; none if the flow is not settled. *)
    packets : int; (** Packets that the kernel passed on. *)
    reason : string option; [@yojson.default None] (** Why the flow is not settled, and all its packets go to the guest; none if it is settled. *)
    source : string; (** The sender's address and port when they come. *)
    to_destination : string; [@yojson.key "to-destination"] (** The receiver's. *)
    to_link : string option; [@yojson.key "to-link"] [@yojson.default None] (** The link by whose interface they leave. *)
    to_source : string; [@yojson.key "to-source"] (** The sender's address and port when they leave. *)
    to_vnic : string; [@yojson.key "to-vnic"] (** The guest's VNIC by which the guest sends them on. *)
    transport : string; (** `tcp` or `udp`. *)
    vnic : string; (** The guest's VNIC by which its packets come. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A flow of which a guest said that it is settled, in one direction. *)

module Socket_state = struct
  type t = [ `Open | `Listening | `Failed | `Closing | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Open -> `String "open"
    | `Listening -> `String "listening"
    | `Failed -> `String "failed"
    | `Closing -> `String "closing"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "open" -> Ok `Open
    | `String "listening" -> Ok `Listening
    | `String "failed" -> Ok `Failed
    | `String "closing" -> Ok `Closing
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** What a socket does. *)

module Socket_transport = struct
  type t = [ `Tcp | `Udp | `Other of string ]

  let to_yojson : t -> Yojson.Safe.t = function
    | `Tcp -> `String "tcp"
    | `Udp -> `String "udp"
    | `Other value -> `String value

  let of_yojson : Yojson.Safe.t -> (t, string) result = function
    | `String "tcp" -> Ok `Tcp
    | `String "udp" -> Ok `Udp
    | `String value -> Ok (`Other value)
    | _ -> Error "no text"
end
(** The transport protocol of a socket. *)

module Socket = struct
  type t = {
    bound : string option; [@yojson.default None] (** The address that it was bound to, if the application bound it. *)
    local : string option; [@yojson.default None] (** Its address, if its NSM has told it. *)
    nsm : string; (** The NSM that serves it. *)
    number : int; (** Its number in the application. *)
    peer : string option; [@yojson.default None] (** The address of its peer. *)
    received : int; (** Bytes received. *)
    retransmits : int option; [@yojson.default None] (** Segments that were sent again. *)
    rtt_ms : float option; [@yojson.key "rtt-ms"] [@yojson.default None] (** Milliseconds of the smoothed round-trip time of its connection, if its NSM knows it. *)
    rtt_variance_ms : float option; [@yojson.key "rtt-variance-ms"] [@yojson.default None] (** Milliseconds of the round-trip time's variance. *)
    sent : int; (** Bytes sent. *)
    shares : int; (** How many processes, beside the first, it was given to by fork, exec or a message. *)
    state : Socket_state.t; (** What it does. *)
    transport : Socket_transport.t; (** Its transport protocol. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A socket of an application. *)

module Socket_call = struct
  type t = {
    address : string option; [@yojson.default None] (** The address that it names. *)
    answer : bool; (** Whether it comes from the NSM; else from the application. *)
    bytes : int option; [@yojson.default None] (** Bytes of payload. *)
    error : string option; [@yojson.default None] (** The error of an answer. *)
    number : int; (** Its number, from 1 on. *)
    operation : string; (** What was asked, answered or told: `connect`, `sent`, `data`. *)
    option : Yojson.Safe.t list option; [@yojson.default None] (** A socket option, as level and name. *)
    socket : int; (** The socket's number in the application. *)
    time : string; (** When it passed CoreEngine, in UTC. *)
    took_us : float option; [@yojson.key "took-us"] [@yojson.default None] (** Microseconds from the request to this answer. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A socket call that reached an NSM, or what an NSM answered or told. *)

module Socket_trace = struct
  type t = {
    lost : int; (** Records before these that were dropped, since nobody asked for them in time. *)
    next : int; (** The number of the last record, to ask for the next ones with. *)
    records : Socket_call.t list; (** The records, in order; at most 256. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** What the sockets of an application did. *)

module Stub = struct
  type t = {
    aging : int option; [@yojson.default None] (** Seconds after which an address that was not seen again is removed. *)
    lookup : Yojson.Safe.t option; [@yojson.default None] (** The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. *)
    mac_limit : int option; [@yojson.key "mac-limit"] [@yojson.default None] (** Most addresses that are learned behind one port. *)
    mtu : int option; [@yojson.default None] (** Largest IP packet, in bytes; 1500 if none is given. *)
    speed : string option; [@yojson.default None] (** Highest rate of each port without a `maxbw` of its own. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A switch without a NIC, as it is written: all in one table, where an unknown key is an error with its line. *)

module Stub_object = struct
  type t = {
    aging : int option; [@yojson.default None] (** Seconds after which an address that was not seen again is removed. *)
    lookup : Yojson.Safe.t option; [@yojson.default None] (** The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. *)
    mac_limit : int option; [@yojson.key "mac-limit"] [@yojson.default None] (** Most addresses that are learned behind one port. *)
    mtu : int option; [@yojson.default None] (** Largest IP packet, in bytes; 1500 if none is given. *)
    name : string; (** Its name. *)
    speed : string option; [@yojson.default None] (** Highest rate of each port without a `maxbw` of its own. *)
    status : Link_status.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** A switch without a NIC, as it is written: all in one table, where an unknown key is an error with its line. *)

module Switch_status = struct
  type t = {
    missing : string list option; [@yojson.default None] (** In the answer to a new Click configuration: names in it that no port of the link has yet. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** The switch of a link as it is. *)

module Switch_function_object = struct
  type t = {
    aging : int option; [@yojson.default None] (** Seconds after which an address that was not seen again is removed. *)
    default_ : string option; [@yojson.key "default"] [@yojson.default None] (** With a flow table, the action for frames without an entry, in ovs-ofctl's words: `normal` (by addresses), `drop`, or `output:VNIC`. *)
    file : string option; [@yojson.default None] (** The name of a Click configuration in messages. It is not kept. *)
    lookup : Yojson.Safe.t option; [@yojson.default None] (** The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. *)
    mac_limit : int option; [@yojson.key "mac-limit"] [@yojson.default None] (** Most addresses that are learned behind one port. *)
    name : string; (** Its name. *)
    speed : string option; [@yojson.default None] (** Highest rate of each port without a `maxbw` of its own. *)
    status : Switch_status.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** How the switch of a link or stub works. It is called as its link. *)

module Table = struct
  type t = {
    default_ : string option; [@yojson.key "default"] [@yojson.default None] (** The action for frames without an entry, in ovs-ofctl's words: `normal` (by addresses), `drop` or `output:VNIC`; default: `normal`. *)
    flows : string Dict.t option; [@yojson.default None] (** Flows, in ovs-ofctl's words, and the VNIC that each goes to, or the switch's own name for its NIC. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A switch's flow table. *)

module Vnic = struct
  type t = {
    addresses : string list option; [@yojson.default None] (** The IP addresses of its interface, with their prefixes. *)
    guest : On_demand.t option; [@yojson.default None]
    host : bool option; [@yojson.default None] (** Whether it is in the host's namespace. *)
    interface : string option; [@yojson.default None] (** The interface's name in the namespace or on the host; default: the VNIC's. *)
    link : string; (** The stub or link that it is on. *)
    mac : string option; [@yojson.default None] (** Its Ethernet address; default: in a wire, derived from the names, else random. *)
    namespace : string option; [@yojson.default None] (** The network namespace that it is in: a name (`ip netns`), or a path. *)
    nsm : string option; [@yojson.default None] (** The user NSM that has it: it is made with the NSM. *)
    properties : Port_properties.t option; [@yojson.default None] (** Speed, delay, loss, VLAN, protection and so on. *)
    vhost_user : string option; [@yojson.key "vhost-user"] [@yojson.default None] (** The socket where a vhost-user frontend connects. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed. *)

module Vnic_status = struct
  type t = {
    guest : string option; [@yojson.default None] (** The guest that has it. *)
    interface : string option; [@yojson.default None] (** The name of its interface in the namespace or on the host. *)
    mtu : int option; [@yojson.default None] (** Largest IP packet, in bytes. *)
    reason : string option; [@yojson.default None] (** Why not. *)
    state : State.t option; [@yojson.default None] (** Whether it works. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A VNIC as it is. *)

module Vnic_object = struct
  type t = {
    addresses : string list option; [@yojson.default None] (** The IP addresses of its interface, with their prefixes. *)
    guest : On_demand.t option; [@yojson.default None]
    host : bool option; [@yojson.default None] (** Whether it is in the host's namespace. *)
    interface : string option; [@yojson.default None] (** The interface's name in the namespace or on the host; default: the VNIC's. *)
    link : string; (** The stub or link that it is on. *)
    mac : string option; [@yojson.default None] (** Its Ethernet address; default: in a wire, derived from the names, else random. *)
    name : string; (** Its name. *)
    namespace : string option; [@yojson.default None] (** The network namespace that it is in: a name (`ip netns`), or a path. *)
    nsm : string option; [@yojson.default None] (** The user NSM that has it: it is made with the NSM. *)
    properties : Port_properties.t option; [@yojson.default None] (** Speed, delay, loss, VLAN, protection and so on. *)
    status : Vnic_status.t option; [@yojson.default None]
    vhost_user : string option; [@yojson.key "vhost-user"] [@yojson.default None] (** The socket where a vhost-user frontend connects. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed. *)

module Wire_change = struct
  type t = {
    steps : string list; (** The steps in their order, a line each: `+` makes a part, `-` removes it, `~` changes it. *)
    warnings : string list option; [@yojson.default None] (** What the wire's author should know. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** The steps that applying a wire took, or would take. *)

module Wire_guest = struct
  type t = {
    name : string; (** Its name. *)
    reason : string option; [@yojson.default None] (** How it ended. *)
    state : Guest_state.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** State of a guest of a wire. *)

module Wire_process = struct
  type t = {
    name : string; (** Its name. *)
    reason : string option; [@yojson.default None] (** Why it is down. *)
    state : State.t option; [@yojson.default None]
  }
  [@@deriving make, yojson { strict = false }]
end
(** State of an NSM or an application of a wire. *)

module Wire_status = struct
  type t = {
    applications : Wire_process.t list option; [@yojson.default None] (** The state of each of its applications. *)
    changing : bool option; [@yojson.default None] (** Whether it is being changed. *)
    guests : Wire_guest.t list option; [@yojson.default None] (** The state of each of its guests. *)
    nsms : Wire_process.t list option; [@yojson.default None] (** The state of each of its NSMs. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A wire as it is. *)

module Wire_object = struct
  type t = {
    app : Application.t Dict.t option; [@yojson.default None] (** Programs that the node runs, whose sockets NSMs serve. *)
    description : string option; [@yojson.default None] (** A description for people. *)
    existing : string list option; [@yojson.default None] (** Stubs and links of the node that it uses, and neither makes nor removes. *)
    flow : Flow.t Dict.t option; [@yojson.default None] (** Traffic classes on links and stubs. *)
    guest : Guest.t Dict.t option; [@yojson.default None] (** Network functions. *)
    link : Link.t Dict.t option; [@yojson.default None] (** Switches with a NIC: interfaces of the host that are attached. *)
    name : string; (** Its name. *)
    namespace : Namespace.t Dict.t option; [@yojson.default None] (** Hosts that are network namespaces. *)
    nsm : Nsm.t Dict.t option; [@yojson.default None] (** Network stack modules. *)
    patch : Patch.t Dict.t option; [@yojson.default None] (** Wires between switches. *)
    status : Wire_status.t option; [@yojson.default None]
    stub : Stub.t Dict.t option; [@yojson.default None] (** Switches without a NIC, and their properties. *)
    table : Table.t Dict.t option; [@yojson.default None] (** Flow tables of switches that work by one, by the switches' names. *)
    vnic : Vnic.t Dict.t option; [@yojson.default None] (** Virtual NICs. *)
    wire : string; (** Its name. *)
  }
  [@@deriving make, yojson { strict = false }]
end
(** A virtual wire: a whole network. Each part has a name of its own among those of its kind.  As text it is TOML:  ```toml wire = "two-subnets"  [stub.office] speed = "1G"  [namespace.desk] routes = ["default via 10.0.1.1"]  [vnic.desk0] link = "office" namespace = "desk" addresses = ["10.0.1.2/24"] properties = { maxbw = "100M", delay = "2ms" }  [guest.router] file = "router.click" interfaces = { inside = "router0", outside = "router1" } ``` *)
