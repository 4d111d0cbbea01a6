//! `require(library …)`.

mod common;

use common::{World, parse_in};

fn world() -> World {
    World {
        libraries: [
            (
                "a",
                "require(library b) elementclass A { b :: B } x :: Idle;",
            ),
            ("b", "elementclass B { i :: Idle($v) } y :: Idle"),
            ("again", "require(library a, library again)"),
            ("wrong", "\n#line 7 \"w.click\"\nFoo -> ;\nelementclass {"),
        ]
        .into(),
    }
}

#[test]
fn a_library_stands_where_it_is_required() {
    let source = "require(library a); define($v 3) a :: A; Idle;";
    let (graph, messages) = parse_in(&world(), source);
    assert_eq!(messages, "");
    assert_eq!(
        graph.expect("no errors").unparse(),
        "y :: Idle;\nx :: Idle;\nIdle@4 :: Idle;\na/b/i :: Idle(3);\n\n"
    );
}

#[test]
fn each_library_is_read_once() {
    let source = "require(library a, library again, library \"a\"); a :: A; require(library b)";
    let (graph, messages) = parse_in(&world(), source);
    assert_eq!(messages, "");
    assert_eq!(graph.expect("no errors").elements.len(), 3);
}

#[test]
fn wrong_libraries() {
    let source = "require(library wrong);\nrequire(library none, library unreadable);\n\
                  { require(library a) };\na :: Foo;";
    let (graph, messages) = parse_in(&world(), source);
    assert!(graph.is_none());
    assert_eq!(
        messages,
        "w.click:7: undeclared element 'Foo'\n\
         w.click:7: syntax error near ';'\n\
         w.click:8: expected element type name\n\
         w.click:8: expected '}'\n\
         config:2: library 'none' not found in CLICKPATH/conf\n\
         config:2: unreadable: Permission denied\n\
         config:3: 'require library' must be used at file scope\n"
    );
}
