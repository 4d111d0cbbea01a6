(* Writes models.ml and operations.ml in a folder from the description of the API:

       weir node --openapi | generate FOLDER *)

open Yojson.Safe.Util

(* A field, or null. *)
let member name = function `Assoc _ as it -> member name it | _ -> `Null

let header = "(* Written by generate/generate.ml from the API's description. *)\n\n"
let sprintf = Printf.sprintf

(* GuestObject is Guest_object. *)
let module_name name =
  let character i c =
    if i > 0 && Char.uppercase_ascii c = c then sprintf "_%c" (Char.lowercase_ascii c)
    else String.make 1 c
  in
  String.concat "" (List.mapi character (List.of_seq (String.to_seq name)))

let snake = String.map (function '-' -> '_' | c -> c)

let keywords =
  [ "class"; "default"; "end"; "in"; "include"; "method"; "module"; "new"; "object"; "of"; "open" ]
  @ [ "to"; "type"; "val"; "with" ]

let field_name name =
  let name = snake name in
  if List.mem name keywords then name ^ "_" else name

let tag name = "`" ^ String.capitalize_ascii (snake name)

(* A comment for people; a quote in it has to have its other half. *)
let comment schema =
  match member "description" schema with
  | `String text ->
      let quotes = List.length (String.split_on_char '"' text) - 1 in
      let text = if quotes mod 2 = 0 then text else String.concat "" (String.split_on_char '"' text) in
      sprintf "(** %s *)" (String.concat " " (String.split_on_char '\n' text))
  | _ -> ""

let rec reference schema =
  match (member "$ref" schema, member "anyOf" schema) with
  (* Others are the same with less. *)
  | _, `List (first :: _) -> reference first
  | `String path, _ -> Some (List.nth (List.rev (String.split_on_char '/' path)) 0)
  | _ -> None

let raw = "Yojson.Safe.t"

let rec type_of schema =
  match (reference schema, member "oneOf" schema, member "type" schema) with
  | Some name, _, _ -> module_name name ^ ".t"
  | None, `List [ it; `Assoc [ ("type", `String "null") ] ], _ -> type_of it ^ " option"
  | None, `List _, _ -> raw
  | None, _, `List kinds ->
      (* Of several kinds, the node answers with the first. *)
      plain (List.hd kinds) schema ^ if List.mem (`String "null") kinds then " option" else ""
  | None, _, kind -> plain kind schema

and plain kind schema =
  match (kind, member "additionalProperties" schema) with
  | `String "string", _ -> "string"
  | `String "integer", _ -> "int"
  | `String "number", _ -> "float"
  | `String "boolean", _ -> "bool"
  | `String "array", _ -> type_of (member "items" schema) ^ " list"
  | `String "object", (`Assoc _ as values) -> type_of values ^ " Dict.t"
  | _ -> raw

(* The properties of an object, and of those that it includes, with whether each is required. *)
let rec properties schemas schema =
  match (reference schema, member "allOf" schema) with
  | Some name, _ -> properties schemas (List.assoc name schemas)
  | None, `List parts -> List.concat_map (properties schemas) parts
  | None, _ ->
      let required = match member "required" schema with `List names -> names | _ -> [] in
      let listed = match member "properties" schema with `Assoc it -> it | _ -> [] in
      List.map (fun (name, it) -> (name, it, List.mem (`String name) required)) listed

let is_option kind = String.length kind > 7 && String.sub kind (String.length kind - 7) 7 = " option"

let field (name, schema, is_required) =
  let kind = type_of schema in
  let kind = if is_required || is_option kind then kind else kind ^ " option" in
  let ocaml = field_name name in
  let key = if ocaml = name then "" else sprintf " [@yojson.key %S]" name in
  let default = if is_option kind then " [@yojson.default None]" else "" in
  let comment = match comment schema with "" -> "" | text -> " " ^ text in
  sprintf "    %s : %s;%s%s%s\n" ocaml kind key default comment

let enumeration values =
  let values = List.map to_string values in
  let each f = String.concat "" (List.map f values) in
  let tags = String.concat " | " (List.map tag values) in
  sprintf "  type t = [ %s | `Other of string ]\n\n" tags
  ^ "  let to_yojson : t -> Yojson.Safe.t = function\n"
  ^ each (fun value -> sprintf "    | %s -> `String %S\n" (tag value) value)
  ^ "    | `Other value -> `String value\n\n"
  ^ "  let of_yojson : Yojson.Safe.t -> (t, string) result = function\n"
  ^ each (fun value -> sprintf "    | `String %S -> Ok %s\n" value (tag value))
  ^ "    | `String value -> Ok (`Other value)\n    | _ -> Error \"no text\"\n"

let model schemas (name, schema) =
  let body =
    match member "enum" schema with
    | `List values -> enumeration values
    | _ ->
        let fields = String.concat "" (List.map field (properties schemas schema)) in
        sprintf "  type t = {\n%s  }\n  [@@deriving make, yojson { strict = false }]\n" fields
  in
  sprintf "module %s = struct\n%send\n%s\n" (module_name name) body (comment schema)

(* The schemas that a schema names. *)
let rec named = function
  | `Assoc fields as schema ->
      Option.to_list (reference schema) @ List.concat_map (fun (_, it) -> named it) fields
  | `List parts -> List.concat_map named parts
  | _ -> []

(* Schemas, each after those that it names. *)
let sorted schemas =
  let rec visit seen name =
    if List.mem name seen then seen
    else name :: List.fold_left visit seen (named (List.assoc name schemas))
  in
  let names = List.fold_left visit [] (List.map fst schemas) in
  List.rev_map (fun name -> (name, List.assoc name schemas)) names

let models schemas =
  header ^ String.concat "\n" (List.map (model schemas) (sorted schemas))

(* The name of the functions of a type: of_yojson or to_yojson. *)
let converter direction schema =
  match reference schema with
  | Some name -> sprintf "Models.%s.%s" (module_name name) direction
  | None -> if direction = "of_yojson" then "Result.ok" else "Fun.id"

let content kind part = member kind (member "content" part)
let schema_of part = match content "application/json" part with `Null -> None | it -> Some (member "schema" it)

let growing = [ "act-on-guests"; "create-guests" ]

let operation verb path it =
  let id = to_string (member "operationId" it) in
  let parameters = match member "parameters" it with `List all -> all | _ -> [] in
  let is_in place parameter = member "in" parameter = `String place in
  let name parameter = to_string (member "name" parameter) in
  let answers = List.filter (fun (status, _) -> status < "300") (to_assoc (member "responses" it)) in
  let answer = snd (List.hd answers) in
  let is_followed = content "text/event-stream" answer <> `Null in
  let query = List.filter (is_in "query") parameters in
  let query = List.filter (fun it -> not (is_followed && name it = "follow")) query in
  let text parameter =
    let label = field_name (name parameter) in
    match type_of (member "schema" parameter) with
    | "int" | "int option" -> sprintf "Option.map string_of_int %s" label
    | "bool" | "bool option" -> sprintf "Option.map string_of_bool %s" label
    | _ -> label
  in
  let body = schema_of (member "requestBody" it) in
  let segment part =
    if part <> "" && part.[0] = '{' then snake (String.sub part 1 (String.length part - 2))
    else sprintf "%S" part
  in
  let segments = List.map segment (List.tl (String.split_on_char '/' path)) in
  let positional =
    List.filter_map (fun it -> if is_in "path" it then Some (snake (name it)) else None) parameters
  in
  let labels = List.map (fun it -> "?" ^ field_name (name it)) query in
  let pairs = List.map (fun it -> sprintf "(%S, %s)" (name it) (text it)) query in
  let sent =
    (if pairs = [] then "" else sprintf " ~query:[ %s ]" (String.concat "; " pairs))
    ^ (match body with
      | Some schema -> sprintf " ~body:(%s body)" (converter "to_yojson" schema)
      | None -> "")
    ^ sprintf " %S [ %s ]" (String.uppercase_ascii verb) (String.concat "; " segments)
  in
  let define name labels positional call summary =
    let arguments = String.concat " " (labels @ ("node" :: positional)) in
    sprintf "(** %s *)\nlet %s %s = %s\n" summary name arguments call
  in
  let body = if body = None then [] else [ "body" ] in
  let summary = to_string (member "summary" it) in
  let plain call = define (snake id) labels (positional @ body) call summary in
  match schema_of answer with
  | None -> [ plain ("Call.unit node" ^ sent) ]
  | Some schema when member "type" schema = `String "array" ->
      let element = converter "of_yojson" (member "items" schema) in
      if List.mem id growing then
        let summary = summary ^ " Each is given to [found], which may raise an exception to go no further." in
        let call = sprintf "Call.grow node %s%s found" element sent in
        [ define (snake id) labels (positional @ body @ [ "found" ]) call summary ]
      else
        let listed = plain (sprintf "Call.json node (Call.list %s)%s" element sent) in
        let followed =
          let noun = String.sub id (String.index id '-') (String.length id - String.index id '-') in
          let summary = summary ^ " Goes on with those to come, each of which is given to [found], which may raise an exception to go no further. After a break, [last] is the last one's number." in
          let call = sprintf "Call.follow node %s ?last%s found" element sent in
          define ("follow" ^ snake noun) (labels @ [ "?last" ]) (positional @ [ "found" ]) call summary
        in
        listed :: (if is_followed then [ followed ] else [])
  | Some schema -> [ plain (sprintf "Call.json node %s%s" (converter "of_yojson" schema) sent) ]

let operations paths =
  let all =
    List.concat_map
      (fun (path, item) -> List.concat_map (fun (verb, it) -> operation verb path it) (to_assoc item))
      paths
  in
  header ^ String.concat "\n" all

let () =
  let description = Yojson.Safe.from_channel stdin in
  let write name text =
    let file = open_out (Filename.concat Sys.argv.(1) name) in
    output_string file text;
    close_out file
  in
  write "models.ml" (models (to_assoc (member "schemas" (member "components" description))));
  write "operations.ml" (operations (to_assoc (member "paths" description)))
