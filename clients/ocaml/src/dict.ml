(* A JSON object as a list of names and values. *)

type 'a t = (string * 'a) list

let to_yojson value dict = `Assoc (List.map (fun (name, it) -> (name, value it)) dict)

let of_yojson value = function
  | `Assoc fields ->
      List.fold_right
        (fun (name, it) rest ->
          Result.bind rest (fun rest -> Result.map (fun it -> (name, it) :: rest) (value it)))
        fields (Ok [])
  | _ -> Error "Dict.t"
