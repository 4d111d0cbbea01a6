//! The client against the API's description: for every operation of the description, the client has
//! a method that asks for the same path by the same method, with a body and an answer of the same
//! types.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use node::client::Client;
use node::error::Error;
use node::model::{
    Admission, Application, Clones, CrashesQuery, EventsQuery, Flow, Guest, GuestAction,
    GuestOutcome, GuestSeries, Link, LogQuery, LogsQuery, Nsm, Object, Purge, Selection, Spec,
    Stub, SwitchFunction, Verb, Vnic, Wire,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An operation of the description.
#[derive(Clone, Debug)]
struct Described {
    method: String,
    path: String,
    status: String,
    /// Examples.
    body: Value,
    answer: Value,
}

fn described() -> BTreeMap<String, Described> {
    let description: Value = serde_json::from_str(&node::api::description()).unwrap();
    let mut all = BTreeMap::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let (status, response) = responses.iter().find(|(s, _)| s.starts_with('2')).unwrap();
            let example = |part: &Value| part["content"]["application/json"]["example"].clone();
            all.insert(
                operation["operationId"].as_str().unwrap().to_string(),
                Described {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    status: status.clone(),
                    body: example(&operation["requestBody"]),
                    answer: example(response),
                },
            );
        }
    }
    all
}

/// A request as it came: method, path and body.
type Came = (String, String, Value);

/// A server that answers each request with what it is told to, and tells what came.
struct Server {
    socket: PathBuf,
    answers: std::sync::mpsc::Sender<(String, Value)>,
    came: Receiver<Came>,
}

impl Server {
    fn new() -> Server {
        let name = format!("weir-client-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let (answers, wanted) = channel::<(String, Value)>();
        let (tell, came) = channel();
        std::thread::spawn(move || {
            for (status, answer) in wanted {
                let (stream, _) = listener.accept().unwrap();
                tell.send(serve(stream, &status, &answer)).unwrap();
            }
        });
        Server {
            socket,
            answers,
            came,
        }
    }
}

fn serve(stream: UnixStream, status: &str, answer: &Value) -> Came {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split(' ').map(str::to_string);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let text = if status == "204" {
        String::new()
    } else {
        answer.to_string()
    };
    let head = format!(
        "HTTP/1.1 {status} ok\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    reader.get_mut().write_all(head.as_bytes()).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    (method, path, body)
}

/// Calls of the client, and what is left of the description.
struct Check {
    server: Server,
    client: Client,
    left: BTreeMap<String, Described>,
}

/// What is put for the parameters of a path.
const PARAMETERS: [&str; 2] = ["x y", "a/b"];

impl Check {
    /// Calls a method of the client, which has to be the operation called `id`.
    fn operation<B: DeserializeOwned, T: Serialize>(
        &mut self,
        id: &str,
        call: impl FnOnce(&Client, [&str; 2], B) -> Result<T, Error>,
    ) {
        let expected = self.left.remove(id);
        let expected = expected.unwrap_or_else(|| panic!("the description has no {id}"));
        let answer = (expected.status.clone(), expected.answer.clone());
        self.server.answers.send(answer).unwrap();
        let body = serde_json::from_value(expected.body.clone())
            .unwrap_or_else(|error| panic!("{id}: its body is of another type: {error}"));
        let got = call(&self.client, PARAMETERS, body).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(serde_json::to_value(got).unwrap(), expected.answer, "{id}");
        let (method, path, body) = self.server.came.recv().unwrap();
        let mut parameters = ["x%20y", "a%2Fb"].into_iter();
        let named = expected.body["name"]
            .as_str()
            .filter(|_| expected.method == "PUT");
        let wire = expected.body["wire"].as_str();
        let segments = expected.path.split('/').map(|segment| match segment {
            "{name}" if named.or(wire).is_some() => named.or(wire).unwrap(),
            _ if segment.starts_with('{') => parameters.next().unwrap(),
            _ => segment,
        });
        let expected_path = segments.collect::<Vec<_>>().join("/");
        assert_eq!((method, path), (expected.method, expected_path), "{id}");
        assert_eq!(body, expected.body, "{id}");
    }

    fn resource<S: Spec>(&mut self) {
        let (one, all) = (S::NOUN, S::PATH);
        for verb in S::VERBS {
            match verb {
                Verb::List => self.operation(&format!("list-{all}"), |c, _, ()| c.list::<S>()),
                Verb::Show => {
                    self.operation(&format!("show-{one}"), |c, [name, _], ()| c.show::<S>(name));
                }
                Verb::Create => {
                    self.operation(&format!("create-{one}"), |c, _, new: Object<S>| {
                        c.create(&new)
                    });
                }
                Verb::Put => {
                    self.operation(&format!("put-{one}"), |c, _, new: Object<S>| c.put(&new));
                }
                Verb::Patch => self.operation(&format!("patch-{one}"), |c, [name, _], patch| {
                    c.patch::<S>(name, &patch)
                }),
                Verb::Delete => self.operation(&format!("delete-{one}"), |c, [name, _], ()| {
                    c.delete::<S>(name)
                }),
            }
        }
    }
}

/// What an answer that is read as it grows has in the end.
type EachOutcome<'a> = &'a mut dyn FnMut(GuestOutcome) -> ControlFlow<()>;

fn each(
    ask: impl FnOnce(EachOutcome<'_>) -> Result<(), Error>,
) -> Result<Vec<GuestOutcome>, Error> {
    let mut all = Vec::new();
    ask(&mut |outcome| {
        all.push(outcome);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

#[test]
fn every_operation_of_the_description_has_a_method_of_the_client() {
    let server = Server::new();
    let client = Client::new(&server.socket);
    let left = described();
    let mut check = Check {
        server,
        client,
        left,
    };
    check.resource::<Link>();
    check.resource::<Stub>();
    check.resource::<SwitchFunction>();
    check.resource::<Vnic>();
    check.resource::<Flow>();
    check.resource::<Guest>();
    check.resource::<Wire>();
    check.resource::<Nsm>();
    check.resource::<Application>();
    check.operation("admit-application", |c, _, program: Admission| {
        c.admit(&program)
    });
    check.operation("list-sockets", |c, [name, _], ()| c.sockets(name));
    check.operation("trace-sockets", |c, [name, _], ()| c.trace(name, 0));
    check.operation("show-node", |c, _, ()| c.node());
    check.operation("end-unknown", |c, _, ()| c.end_unknown());
    check.operation("forget-damaged", |c, _, ()| c.forget_damaged());
    check.operation("purge-node", |c, _, confirm: Purge| c.purge(&confirm));
    check.operation("read-handler", |c, [name, _], body| c.read(name, &body));
    check.operation("write-handler", |c, [name, _], body| c.write(name, &body));
    check.operation("act-on-guests", |c, _, action: GuestAction| {
        each(|told| c.act(&action, told))
    });
    check.operation("create-guests", |c, _, series: GuestSeries| {
        each(|told| c.create_series(&series, told))
    });
    check.operation("rename-guest", |c, [name, _], new| c.rename(name, &new));
    check.operation("save-guest", |c, [name, _], save| c.save(name, &save));
    check.operation("restore-guest", |c, _, restore| c.restore(&restore));
    check.operation("clone-guest", |c, [name, _], clones: Clones| {
        each(|told| c.clone_guest(name, &clones, told))
    });
    check.operation("show-configuration", |c, [guest, name], ()| {
        c.configuration(guest, name)
    });
    check.operation("install-configuration", |c, [guest, name], body| {
        c.install(guest, name, &body)
    });
    check.operation("uninstall-configuration", |c, [guest, name], ()| {
        c.uninstall(guest, name)
    });
    check.operation("migrate-guest", |c, [name, _], to| c.migrate(name, &to));
    check.operation("show-guest-log", |c, [name, _], ()| {
        c.log(name, &LogQuery::default())
    });
    check.operation("list-guest-logs", |c, _, ()| c.logs(&LogsQuery::default()));
    check.operation("list-events", |c, _, ()| c.events(&EventsQuery::default()));
    check.operation("list-crashes", |c, _, ()| {
        c.crashes(&CrashesQuery::default())
    });
    check.operation("show-crash", |c, [name, _], ()| c.crash(name));
    check.operation("remove-crashes", |c, [name, _], ()| c.remove_crashes(name));
    check.operation("list-macs", |c, [name, _], ()| c.macs(name));
    check.operation("flush-macs", |c, [name, _], ()| c.flush(name));
    check.operation("list-entries", |c, [name, _], ()| c.entries(name));
    check.operation("add-entry", |c, [name, _], body| c.add_entry(name, &body));
    check.operation("remove-entry", |c, [name, flow], ()| {
        c.remove_entry(name, flow)
    });
    check.operation("apply-wire", |c, _, body: Object<Wire>| c.apply(&body.spec));
    check.operation("compare-wire", |c, _, body: Object<Wire>| {
        c.compare(&body.spec)
    });
    check.operation("list-stats", |c, _, ()| c.stats());
    check.operation("show-stats", |c, [name, _], ()| c.stats_of(name));
    check.operation("show-lane-stats", |c, [name, _], ()| c.stats_by_lane(name));
    check.operation("list-flow-stats", |c, _, ()| c.flow_stats());
    check.operation("list-settled-flows", |c, _, of: Option<Selection>| {
        c.settled_flows(&of.unwrap_or_default())
    });
    check.operation("show-flow-stats", |c, [name, _], ()| c.stats_of_flow(name));
    check.operation("list-lanes", |c, _, ()| c.lanes());
    let left: Vec<_> = check.left.keys().collect();
    assert!(left.is_empty(), "the client has no method for {left:?}");
    let _ = std::fs::remove_file(&check.server.socket);
}
