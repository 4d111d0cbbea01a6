//! What configurations become. Each expectation is Click 2.1's own output
//! unless the test says otherwise.

#[macro_use]
mod common;

use common::{flattens, parse};

cases! { flattens:
    /// Elements are declared one by one or several at once.
    declarations_single_and_multiple: "a :: Idle; b, c :: Queue(5); d :: Null()" => r#"
a :: Idle;
b :: Queue(5);
c :: Queue(5);
d :: Null;

"#;
    /// Ports stand on either side of an element; left out, they are 0.
    connections_with_ports: "a :: Tee(2); a [1] -> [1] a; a -> b :: Queue -> [2] a [0] -> [0] b;" => r#"
a :: Tee(2);
b :: Queue;

a [1] -> [1] a;
a -> b
    -> [2] a;
"#;
    connections_are_sorted_and_unique: "a, b :: Idle; b -> [1] a; a -> b; a -> b; b -> a; a [1] -> [1] a;" => r#"
a :: Idle;
b :: Idle;

a [1] -> [1] a;
b -> [1] a;
b -> a
    -> b;
"#;
    /// Anonymous elements are numbered by all elements before them.
    anonymous_elements_are_numbered: "Idle -> q :: Queue -> Idle; Idle -> Discard(1);" => r#"
Idle@1 :: Idle;
q :: Queue;
Idle@3 :: Idle;
Idle@4 :: Idle;
Discard@5 :: Discard(1);

Idle@1 -> q
    -> Idle@3;
Idle@4 -> Discard@5;
"#;
    anonymous_numbers_avoid_names: "Idle@1, Idle@2 :: Null; Idle -> Idle@1; Idle@4 :: Null; Idle;" => r#"
Idle@1 :: Null;
Idle@2 :: Null;
Idle@3 :: Idle;
Idle@4 :: Null;
Idle@5 :: Idle;

Idle@3 -> Idle@1;
"#;
    comments:
r#"a :: Idle; // b :: Idle
/* c :: Idle;
 */ d /* x */ :: /**/ Idle(1 /* 2 */, '//3' // 4
, 5);"# => r#"
a :: Idle;
d :: Idle(1 /* 2 */, '//3' // 4
, 5);

"#;
    /// Configurations keep their text up to the closing parenthesis.
    configuration_strings:
r#"a :: Idle(x(y)z, ")", ')', \<29>, "\")", "\<29 // )
>");"# => r#"
a :: Idle(x(y)z, ")", ')', \<29>, "\")", "\<29 // )
>");

"#;
    line_directives_in_configurations:
r#"a :: Idle(1,
# 7 "x"
2);"# => r#"
a :: Idle(1,

2);

"#;
    lists_one_to_many: "a, b, c :: Idle; a -> b, c; b, c -> a; a [2] -> b, [3] c;" => r#"
a :: Idle;
b :: Idle;
c :: Idle;

a [2] -> b
    -> a
    -> b;
a -> c
    -> a;
a [2] -> [3] c;
"#;
    /// `=>` connects in order.
    double_arrow_many_to_many: "a, b, c :: Idle; a => b, c, [0,1] a; b [0,1] => [3-4] c;" => r#"
a :: Idle;
b :: Idle;
c :: Idle;

a [2] -> a
    -> b
    -> [3] c;
a [3] -> [1] a;
a [1] -> c;
b [1] -> [4] c;
"#;
    double_arrow_with_open_ports: "a, b, c :: Idle; a [] => b, c, c; b, c => [2,] a; a [3-] => [1,2,4] b" => r#"
a :: Idle;
b :: Idle;
c :: Idle;

a -> b
    -> [2] a;
a [3] -> [1] b;
a [4] -> [2] b;
a [5] -> [4] b;
a [1] -> c
    -> [3] a;
a [2] -> c;
"#;
    port_lists: "a, b :: Idle; a [0, 2-4, 0x10, 010] => [0-5] b; a [5,] -> [6] b; a [] -> [7] b" => r#"
a :: Idle;
b :: Idle;

a -> b;
a [2] -> [1] b;
a [3] -> [2] b;
a [4] -> [3] b;
a [16] -> [4] b;
a [8] -> [5] b;
a [5] -> [6] b;
a -> [7] b;
"#;
    groups: "a, d :: Idle; a => (-> c :: Idle), ( -> b :: Idle ), d;" => r#"
a :: Idle;
d :: Idle;
c :: Idle;
b :: Idle;

a [2] -> d;
a -> c;
a [1] -> b;
"#;
    groups_pass_through: "x, y :: Idle; x => ( => Paint(1), Idle => ) => [0-1] y;" => r#"
x :: Idle;
y :: Idle;
Paint@6 :: Paint(1);
Idle@7 :: Idle;

x -> Paint@6
    -> y;
x [1] -> Idle@7
    -> [1] y;
"#;
    groups_nested: "c :: Idle => [1] a :: Idle [1], (-> c2 :: Idle => (->), Paint(1) ->) -> p :: Idle;" => r#"
c :: Idle;
c2 :: Idle;
Paint@9 :: Paint(1);
a :: Idle;
p :: Idle;

c [1] -> c2
    -> p;
c2 [1] -> Paint@9
    -> p;
c -> [1] a;
a [1] -> p;
"#;
    groups_in_compounds: "elementclass Foo { a, d :: Idle; a => (-> c :: Idle), (-> b :: Idle), d; } f :: Foo;" => r#"
f/a :: Idle;
f/d :: Idle;
f/c :: Idle;
f/b :: Idle;

f/a [2] -> f/d;
f/a -> f/c;
f/a [1] -> f/b;
"#;
    inline_compounds: "a :: Idle -> { input -> Null -> output } -> b :: { -> Paint(1) -> } -> c :: Idle; { Idle };" => r#"
a :: Idle;
c :: Idle;
@2/Null@1 :: Null;
b/Paint@1 :: Paint(1);
@5/Idle@1 :: Idle;

a -> @2/Null@1
    -> b/Paint@1
    -> c;
"#;
    inline_compound_with_arguments: "a :: Idle -> { $x, K $k | -> Paint($x) -> Queue($k) -> } (3, K 4 5) -> b :: Idle" => r#"
a :: Idle;
b :: Idle;
@2/Paint@1 :: Paint(3);
@2/Queue@2 :: Queue(4 5);

a -> @2/Paint@1
    -> @2/Queue@2
    -> b;
"#;
    implicit_input_and_output: "a, b :: Idle; a -> { -> } -> b; a [1] -> { [0] -> [0] } -> [1] b; a [2], a[3] => { [0], [1] => Null, Null => [0], [1] } => [2,3] b;" => r#"
a :: Idle;
b :: Idle;
@5/Null@1 :: Null;
@5/Null@2 :: Null;

a -> b;
a [1] -> [1] b;
a [2] -> @5/Null@1
    -> [2] b;
a [3] -> @5/Null@2
    -> [3] b;
"#;
    compounds_many_ports: "elementclass S { input -> [1] output; input [1] -> [0] output; } a, b :: Idle; a => [0,1] S [0,1] => [0,1] b;" => r#"
a :: Idle;
b :: Idle;

a [1] -> b;
a -> [1] b;
"#;
    compound_port_fans_out: "elementclass F { input -> a :: Null -> output; input -> b :: Null -> output; } x, y :: Idle; x, y -> F -> x, y;" => r#"
x :: Idle;
y :: Idle;
F@3/a :: Null;
F@3/b :: Null;

F@3/a -> y
    -> F@3/a
    -> x
    -> F@3/a;
F@3/b -> y;
x -> F@3/b
    -> x;
y -> F@3/b;
"#;
    pass_through_compounds: "elementclass P { input -> output } a :: Idle -> P -> P -> (->) -> P -> b :: Idle;" => r#"
a :: Idle;
b :: Idle;

a -> b;
"#;
    nested_names: "elementclass A { x :: Idle; elementclass B { x :: Idle; Idle; y :: { z :: Idle } } b :: B; B } a :: A;" => r#"
a/x :: Idle;
a/b/x :: Idle;
a/b/Idle@2 :: Idle;
a/b/y/z :: Idle;
a/B@3/x :: Idle;
a/B@3/Idle@2 :: Idle;
a/B@3/y/z :: Idle;

"#;
    /// The inside of a compound comes after the elements around it, depth first.
    nested_declaration_order: "elementclass A { p :: Idle } elementclass B { a :: A; q :: Idle; c :: A } b :: B; z :: Idle; d :: B;" => r#"
z :: Idle;
b/q :: Idle;
b/a/p :: Idle;
b/c/p :: Idle;
d/q :: Idle;
d/a/p :: Idle;
d/c/p :: Idle;

"#;
    parameters_positional: r#"elementclass A { $a, $b | Idle($b, $a, $a$b, "$a", '$a') } A(1, x y);"# =>
        "A@1/Idle@1 :: Idle(x y, 1, 1x y, \"1\", '$a');\n\n";
    parameters_keyword: "elementclass A { $a, B $b, C $c | Idle($a, $b, $c) } A(1, C x y, B 2);" =>
        "A@1/Idle@1 :: Idle(1, 2, x y);\n\n";
    parameters_rest: "elementclass A { $a, __REST__ $r | Idle($a, $r) } A(1, 2, 3); A(4, 5 /* c */ 6);" => r#"
A@1/Idle@1 :: Idle(1, 2, 3);
A@2/Idle@1 :: Idle(4, 5 6);

"#;
    parameters_keyword_and_rest: "elementclass A { $a, B $b, __REST__ $r | Idle($a, $b, $r) } A(1, x, B 2, y);" =>
        "A@1/Idle@1 :: Idle(1, 2, x, y);\n\n";
    parameters_see_outer_scope: "define($x 1); elementclass A { $y | elementclass B { $z | Idle($x, $y, $z) } B($y 3) } A($x 2);" =>
        "A@1/B@1/Idle@1 :: Idle(1, 1 2, 1 2 3);\n\n";
    parameters_hide_outer_ones: "define($x 1); elementclass A { $x | elementclass B { Idle($x) } B; define($w $x$x); Idle($w) } A(2); Idle($x);" => r#"
Idle@2 :: Idle(1);
A@1/Idle@2 :: Idle(22);
A@1/B@1/Idle@1 :: Idle(2);

"#;
    define: r#"define($a 1, $b "x, y", $c $a $b); Idle($c); define($d 4) Idle($a/$d);"# => r#"
Idle@1 :: Idle(1 "x, y");
Idle@2 :: Idle(1/4);

"#;
    define_is_lazy: "Idle($a); define($b 1, $a $b 2);" => "Idle@1 :: Idle(1 2);\n\n";
    variable_forms: "define($a x y z, $i 1); Idle($a, ${a}, ${a[1]}, ${a[ 0]}, ${a[$i]}, ${b-none}, ${b-$a}, ${ a }, $b, ${b}, $(f $a), $$, $?);" =>
        "Idle@1 :: Idle(x y z, x y z, y, x, y, none, x y z, x y z, $b, ${b}, $(f x y z), $$, $?);\n\n";
    variables_in_quotes: r#"define($a x "y" $z, $z 1); Idle("$a", '$a', "\$a", /* $a */ $a, "${a}");"# =>
        "Idle@1 :: Idle(\"x \\\"y\\\" 1\", '$a', \"\\$a\", /* $a */ x \"y\" 1, \"x \\\"y\\\" 1\");\n\n";
    variable_loops_end: "define($a $b, $b $a); Idle($a);" => "Idle@1 :: Idle($b);\n\n";
    class_aliases: "elementclass A Queue; elementclass B A; elementclass C { B(1) } elementclass D C; a :: A(2); D;" => r#"
a :: Queue(2);
D@2/B@1 :: Queue(1);

"#;
    classes_are_scoped: "elementclass A { elementclass Null { Idle } Null } A; Null;" => r#"
Null@2 :: Null;
A@1/Null@1/Idle@1 :: Idle;

"#;
    class_shadows_engine_class: "elementclass Queue { input -> Queue(3) -> Queue(4) -> output } Idle -> Queue -> Idle;" => r#"
Idle@1 :: Idle;
Idle@3 :: Idle;
Queue@2/Queue@1 :: Queue(3);
Queue@2/Queue@2 :: Queue(4);

Idle@1 -> Queue@2/Queue@1
    -> Queue@2/Queue@2
    -> Idle@3;
"#;
    overload_by_argument_count: "elementclass F { $a | Idle(one, $a) || $a, $b | Idle(two, $a, $b) || $a, K $k, __REST__ $r | Idle(more, $k, $r) } F(1); F(1, 2); F(1, K 2, 3);" => r#"
F@1/Idle@1 :: Idle(one, 1);
F@2/Idle@1 :: Idle(two, 1, 2);
F@3/Idle@1 :: Idle(more, 2, 3);

"#;
    overload_by_ports: "elementclass F { input -> Paint(1) -> output || input -> Paint(2) -> output; input [1] -> Discard; } a :: Idle -> F -> b :: Idle; a [1] -> f :: F -> b; a [2] -> [1] f;" => r#"
a :: Idle;
b :: Idle;
F@2/Paint@1 :: Paint(1);
f/Paint@1 :: Paint(2);
f/Discard@2 :: Discard;

a -> F@2/Paint@1
    -> b;
a [1] -> f/Paint@1
    -> b;
a [2] -> f/Discard@2;
"#;
    overload_extends_engine_class: "elementclass Queue { $a, $b | input -> Queue($a) -> Queue($b) -> output || ... } Idle -> Queue(1, 2) -> Queue(3) -> Idle;" => r#"
Idle@1 :: Idle;
Queue@3 :: Queue(3);
Idle@4 :: Idle;
Queue@2/Queue@1 :: Queue(1);
Queue@2/Queue@2 :: Queue(2);

Idle@1 -> Queue@2/Queue@1
    -> Queue@2/Queue@2
    -> Queue@3
    -> Idle@4;
"#;
    overload_extends_compound: "elementclass F { $a | Idle(1) } elementclass F { $a, $b | Idle(2) || ... } F(x); F(x, y);" => r#"
F@1/Idle@1 :: Idle(1);
F@2/Idle@1 :: Idle(2);

"#;
    require_and_compact_config: "require(compact_config); a :: Idle;" => r#"
require(compact_config);

a :: Idle;

"#;
    slashes_in_names: "a/b :: Idle; a :: { c :: Idle }; x/y/z :: Null; a/b -> x/y/z;" => r#"
a/b :: Idle;
x/y/z :: Null;
a/c :: Idle;

a/b -> x/y/z;
"#;
    unparse_makes_chains: "a, b, c, d :: Idle; a -> b -> c -> a; d [1] -> [1] d; d -> [2] a; c [1] -> d" => r#"
a :: Idle;
b :: Idle;
c :: Idle;
d :: Idle;

c [1] -> d
    -> [2] a;
d [1] -> [1] d;
c -> a
    -> b
    -> c;
"#;
    no_trailing_semicolon: "a :: Idle -> b :: Idle c :: Idle [1] -> d :: Idle" => r#"
a :: Idle;
b :: Idle;
c :: Idle;
d :: Idle;

a -> b;
c [1] -> d;
"#;
    /// Click leaves a configuration alone that is empty once substituted
    /// (`Idle($a)` here); that does not help a configuration with `__REST__
    /// $rest`.
    empty_variables_are_substituted: "define($a) Idle($a); elementclass A { __REST__ $r | Queue($r) } A;" => r#"
Idle@1 :: Idle;
A@2/Queue@1 :: Queue;

"#;
    /// In Click the braces after `...` hold one more, empty, overload, which a use
    /// without ports or arguments chooses.
    extension_adds_no_empty_overload: "elementclass Idle { $a | Null || ... } Idle; Idle(1);" => r#"
Idle@1 :: Idle;
Idle@2/Null@1 :: Null;

"#;
    /// With two overloads before `...`, Click takes the second for what is
    /// extended, and never comes back.
    extension_after_several_overloads: "elementclass Idle { $a | Null || $a, $b | Queue || ... } Idle; Idle(1); Idle(1, 2)" => r#"
Idle@1 :: Idle;
Idle@2/Null@1 :: Null;
Idle@3/Queue@1 :: Queue;

"#;
    /// Click gives the inner ends of an anonymous group a name that this compound
    /// element wants too.
    groups_make_way_for_names: "a :: Idle -> (-> b :: Null ->) -> @4 :: { -> Null -> } -> c :: Idle;" => r#"
a :: Idle;
b :: Null;
c :: Idle;
@4/Null@1 :: Null;

a -> b
    -> @4/Null@1
    -> c;
"#;
    /// So that text in a larger, zeroed memory area can be given as it is.
    nul_ends_the_text: "a :: Idle;\0 b :: (" => "a :: Idle;\n\n";
}

#[test]
fn settings_override_definitions() {
    use click::{Diagnostics, Options};
    let variables = [("a".to_owned(), "2".to_owned())];
    let world = common::World::default();
    let options = Options {
        variables: &variables,
        ..Options::new(&world)
    };
    let source = b"define($a 1, $b $a); elementclass A { Idle($a) } Idle($b); A";
    let graph = click::parse(source, "", &options, &mut Diagnostics::new());
    assert_eq!(
        graph.expect("no errors").unparse(),
        "Idle@1 :: Idle(2);\nA@2/Idle@1 :: Idle(2);\n\n"
    );
}

#[test]
fn elements_and_connections_know_their_places() {
    let (graph, _) = parse(
        "elementclass A {\n input -> x :: Null ->\n output }\na :: A;\n\
         # 9 \"f\"\nq :: Queue\n-> a -> Idle;",
    );
    let graph = graph.expect("no errors");
    let places = |graph: &click::FlatGraph| -> Vec<String> {
        let elements = graph.elements.iter();
        elements
            .map(|e| format!("{}@{}", e.name, e.location))
            .collect()
    };
    assert_eq!(places(&graph), ["q@f:9", "Idle@3@f:10", "a/x@config:2"]);
    assert_eq!(graph.find("a/x"), Some(2));
    let links = graph.connections.iter().map(|c| c.location.to_string());
    assert_eq!(links.collect::<Vec<_>>(), ["f:10", "f:10"]);
}

#[test]
fn bytes_that_are_not_utf8_are_kept() {
    let options = click::Options::default();
    let mut diagnostics = click::Diagnostics::new();
    let graph = click::parse(b"a :: Idle(\xff);", "", &options, &mut diagnostics);
    let graph = graph.expect("no errors");
    assert_eq!(graph.elements[0].config, "\u{efff}");
    assert_eq!(
        &*click::text::encode(&graph.unparse()),
        b"a :: Idle(\xff);\n\n"
    );
}
