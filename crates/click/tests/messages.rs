//! What is said about wrong configurations. Each expectation is Click 2.1's
//! own output unless the test says otherwise.

#[macro_use]
mod common;

use common::{complains, parse};

cases! { complains:
    unknown_class: "a :: Foo; Foo -> Idle; b :: Foo;" => "config:1: unknown element class 'Foo'\n";
    undeclared_element:
r#"a -> Idle;
b -> a;"# => r#"
config:1: undeclared element 'a'
config:2: undeclared element 'b'
"#;
    redeclaration:
r#"a :: Idle;

a :: Null;"# => r#"
config:3: redeclaration of element 'a'
config:1: element 'a' previously declared here
"#;
    class_as_element_name: "Idle :: Null;" => "config:1: class 'Idle' used as element name\n";
    missing_type: "a :: ;" => r#"
config:1: missing element type in declaration
config:1: unknown element class 'a'
"#;
    syntax_errors: "a :: Idle; -> a; ) ] $x a . b;" => r#"
config:1: syntax error near '->'
config:1: syntax error near ')'
config:1: syntax error near ']'
config:1: syntax error near 'x'
config:1: syntax error near '.'
config:1: undeclared element 'b'
"#;
    syntax_error_prints_bytes: "é;\x01" => r#"
config:1: syntax error near '\303'
config:1: syntax error near '\251'
config:1: syntax error near '^A'
"#;
    provide_is_reserved: "provide(x)" => r#"
config:1: syntax error near 'provide'
config:1: undeclared element 'x'
"#;
    bad_line_directive:
r#"#pragma once
a :: Idle;"# =>
        "config:1: unknown preprocessor directive\n";
    line_directive_places:
r#"# 7 "foo.click"
a :: Foo;
#line 3
b :: Bar;
# 4 ""
c :: Baz;"# => r#"
foo.click:7: unknown element class 'Foo'
foo.click:3: unknown element class 'Bar'
config:4: unknown element class 'Baz'
"#;
    unclosed_configuration: "a :: Idle(x" => "config:1: expected ')'\n";
    unclosed_compound: "elementclass A { Idle" => "config:1: expected '}'\n";
    unclosed_group: "a :: Idle -> ( Idle" => r#"
config:1: expected ')'
config:1: '@2' has no input 0
"#;
    ports_at_chain_ends: "a :: Idle; [1] a -> Idle [2]; [1] Idle;" => r#"
config:1: input ports ignored at start of chain
config:1: output ports ignored at end of chain
config:1: input ports ignored at start of chain
"#;
    bad_ports: "a :: Idle; a [x] -> a; a [1 2] -> a; a [-] -> a;" => r#"
config:1: syntax error: port number should be integer
config:1: syntax error: expected ','
config:1: syntax error: expected port number
config:1: syntax error near '-'
config:1: syntax error near ']'
config:1: syntax error near '->'
"#;
    stranded_port: "a :: Idle; a -> [1] ;" => r#"
config:1: stranded port ignored
config:1: syntax error near ';'
"#;
    connection_mismatch:
r#"a, b, c, d :: Idle;
a [0,1] => [0,1,2] b;
c [] => [] d;
a [0,1] -> [0,1] b;
a[0,1,] => [0] b; a [0,1] => [0,1,2,] b"# => r#"
config:2: connection mismatch: 2 outputs connected to 3 inputs
config:3: at most one expandable port allowed per connection
config:4: syntax error: many-to-many connections require '=>'
config:5: connection mismatch: 2 outputs connected to 3 or more inputs
"#;
    configuration_on_reference: "a :: Idle; a(5) -> Idle;" =>
        "config:1: configuration string ignored on element reference\n";
    all_digit_name: "1 :: Idle; a/2/b :: Idle;" => r#"
config:1: element name '1' has all-digit component
config:1: element name 'a/2/b' has all-digit component
"#;
    missing_compound_ports: "elementclass A { input [1] -> Idle -> [2] output } Idle -> [1] A [2] -> Idle;" => r#"
config:1: 'A' input 0 missing
config:1: 'A' output 0 missing
config:1: 'A' output 1 missing
"#;
    pseudoelement_misuse: "elementclass A { Idle -> input; output -> Idle } A;" => r#"
config:1: 'A' pseudoelement 'input' may only be used as output
config:1: 'A' pseudoelement 'output' may only be used as input
config:1: 'A@1/input' used as input
config:1: 'A@1/output' used as output
"#;
    group_ports: "a :: Idle => ( [1] -> Idle; Idle -> [2] output; Idle -> input );" => r#"
config:1: '<anonymous group>' pseudoelement 'input' may only be used as output
config:1: '<anonymous group>' input 0 missing
config:1: '<anonymous group>' output 0 missing
config:1: '<anonymous group>' output 1 missing
config:1: output ports ignored at end of chain
config:1: '@2' output 2 unused
config:1: '@2/input' used as input
config:1: '@2' has no input 0
"#;
    unused_and_missing_compound_ports: "elementclass A { input -> Idle -> output; } a :: A; Idle -> [1] b :: A [1] -> Idle;" => r#"
config:1: 'b' has no input 1
config:1: 'b' has no output 1
config:1: 'a' input 0 unused
config:1: 'a' output 0 unused
config:1: 'b' input 0 unused
config:1: 'b' output 0 unused
"#;
    input_outside_compounds: "input -> Idle -> output;" => r#"
config:1: undeclared element 'input'
config:1: undeclared element 'output'
"#;
    arguments_mismatch: "elementclass A { $a | Idle($a) } A; A(1, 2); elementclass B { $a | Idle || $a, K $b | Idle || __REST__ $c | Idle -> output } B(1); B(1, 2); B;" => r#"
config:1: no match for 'A[0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   A(<arg>)[0 inputs, 0 outputs]
config:1: no match for 'A[2 arguments, 0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   A(<arg>)[0 inputs, 0 outputs]
config:1: no match for 'B[2 arguments, 0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   B(<arg>)[0 inputs, 0 outputs]
config:1:   B(<arg>, K)[0 inputs, 0 outputs]
config:1:   B(...)[0 inputs, 1 output]
config:1: no match for 'B[0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   B(<arg>)[0 inputs, 0 outputs]
config:1:   B(<arg>, K)[0 inputs, 0 outputs]
config:1:   B(...)[0 inputs, 1 output]
config:1: 'B@4' output 0 unused
config:1: 'B@5' output 0 unused
"#;
    inline_arguments_mismatch: "{ $a | Idle }; { Idle } (1);" => r#"
config:1: no match for '<anonymous>[0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   <anonymous>(<arg>)[0 inputs, 0 outputs]
config:1: no match for '<anonymous>[1 argument, 0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   <anonymous>[0 inputs, 0 outputs]
"#;
    parameter_order: "elementclass A { K $a, $b | Idle } elementclass B { __REST__ $a, $b | Idle } elementclass C { K $a, K $b | Idle } elementclass D { $a, $a | Idle }" => r#"
config:1: compound element parameters out of order
config:1: (The correct order is '[positional], [keywords], [__REST__]'.)
config:1: compound element parameters out of order
config:1: (The correct order is '[positional], [keywords], [__REST__]'.)
config:1: repeated keyword parameter 'K' in compound element
config:1: parameter '$a' multiply defined
"#;
    parameter_syntax: "elementclass A { $a $b | Idle } elementclass B { $a, x | Idle } elementclass C { $a, K | }" => r#"
config:1: expected ',' or '|'
config:1: syntax error near 'b'
config:1: syntax error near '|'
config:1: expected variable
config:1: undeclared element 'x'
config:1: syntax error near '|'
config:1: expected variable
config:1: undeclared element 'K'
config:1: syntax error near '|'
"#;
    extension_errors: "elementclass Foo { Idle || ... } elementclass Bar { ... || Idle } elementclass Idle { Null || ... Null }" => r#"
config:1: cannot extend unknown element class 'Foo'
config:1: cannot extend unknown element class 'Bar'
config:1: '...' should occur last, after one or more compounds
config:1: '...' should occur last, after one or more compounds
"#;
    define_errors: "define(x 1, $, $a-b 2); define $a; define($c 1, $c 2);" => r#"
config:1: bad 'define' declaration: not a variable
config:1: bad 'define' declaration: not a variable
config:1: bad 'define' declaration: not a variable
config:1: expected '('
config:1: syntax error near 'a'
config:1: parameter '$c' multiply defined
"#;
    require_errors: "require(package); require(library); require(a b); require(compact_config x); require x;" => r#"
config:1: syntax error at requirement
config:1: syntax error at requirement
config:1: syntax error at requirement
config:1: syntax error at requirement
config:1: expected '('
config:1: undeclared element 'x'
"#;
    elementclass_errors: "elementclass { Idle } elementclass A; elementclass B Foo; elementclass -> C" => r#"
config:1: expected element type name
config:1: syntax error near ';'
config:1: unknown element class 'Foo'
config:1: expected element type name
config:1: syntax error near '->'
config:1: undeclared element 'C'
"#;
    implicit_in_the_middle: "elementclass A { a :: Idle -> -> Idle; }" =>
        "config:1: syntax error near '->'\n";
    element_redeclared_by_expansion: "elementclass A { x :: Idle } a/x :: Idle; a :: A;" => r#"
config:1: redeclaration of element 'a/x'
config:1: 'a/x' previously declared here
"#;
    tunnel_used_backwards: "a :: { Idle -> output }; Idle -> a/output; a/output -> Idle" => r#"
config:1: undeclared element 'a/output'
config:1: 'a' output 0 unused
"#;
    /// What the environment suggests is not from Click.
    unknown_class_with_a_near_name: "q :: Quue;" =>
        "config:1: unknown element class 'Quue'; did you mean 'Queue'?\n";
    /// Click names the last line of the file for these.
    mismatches_have_the_place_of_the_use: "elementclass A { $a | Idle }\nA;\na, a/x :: Idle; b :: { x :: Idle }; b/x :: Idle;\n\n" => r#"
config:2: no match for 'A[0 inputs, 0 outputs]'
config:1: candidates are:
config:1:   A(<arg>)[0 inputs, 0 outputs]
config:3: redeclaration of element 'b/x'
config:3: 'b/x' previously declared here
"#;
}

#[test]
fn nesting_limit() {
    let closing = "config:1: expected '}'\n".repeat(48);
    let expected =
        "config:1: maximum compound element nesting depth exceeded\n".to_owned() + &closing;
    complains(&format!("{} Idle }}", "{".repeat(50)), &expected);
}

/// A warning is no error.
#[test]
fn implicit_input_after_another_chain() {
    let (graph, messages) =
        parse("elementclass A { Idle -> Null;\n -> Idle -> output } Idle -> A -> Idle");
    assert!(graph.is_some());
    assert_eq!(
        messages,
        "config:2: warning: suggest 'input ->' or '[0] ->' to start connection\n"
    );
}

#[test]
fn packages() {
    assert!(parse("require(package click, click);").0.is_some());
    complains("\nrequire(foo);", "requirement 'foo' not available\n");
}
