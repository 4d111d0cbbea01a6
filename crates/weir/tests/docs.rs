//! The commands in README.md and docs/*.md run as written: each page in namespaces of its own, its
//! `sh` blocks in order.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Blocks that do not run here, by their first command, and the reason.
const SKIPPED: [(&str, &str); 3] = [
    ("make run", "runs this test, and installs packages"),
    ("CLICK_SOURCE=", "needs a checkout of Click"),
    ("CLICK=", "needs a Click"),
];

/// What runs the commands of a page, with the folders of the project and of `weir`. `run PLACE
/// COMMAND` runs one, `finish` ends those of a block that run until Ctrl-C, and `leave` ends the
/// node. The first failure ends the page.
const SHELL: &str = r#"
set -m # a process group for each job, so that SIGINT arrives as from a terminal
exec 2>&1 </dev/null
unset WEIR_RUN WEIR_STATE
PATH=$2:$PATH
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib && mkdir /run/page && cd /run/page || exit
ln -s "$1/examples" . && echo 'InfiniteSource(LIMIT 5, STOP true) -> Discard;' >my.click || exit
echo fail-with-body >.curlrc && export CURL_HOME=$PWD # an error of the API is an exit code
ip link set lo up && ip link add eth1 type veth peer name wire1 || exit
ip link set eth1 up && ip link set wire1 up || exit
declare -A pids paths
fail() { cat "$1"; echo "$2"; exit 1; }
started() { # OUTPUT TEXT: the last job runs until Ctrl-C, and has printed the text
    pids[$1]=$! paths[$1]=$place
    until grep -q "$2" "$1"; do
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
}
run() {
    place=$1 output=$((++count))
    echo "$1: $2"
    case $2 in
    'weir node &'*) eval "$2" >$output 2>&1; started $output 'the node is ready'; node=$output ;;
    'weir cluster agent &'*) eval "$2" >$output 2>&1; started $output 'is in the cluster' ;;
    'weir store '*'&') eval "$2" >$output 2>&1; started $output 'the store is ready' ;;
    'weir run '* | 'weir top '* | 'weir '*' -i 1'*) eval "$2" >$output 2>&1 & started $output . ;;
    *) eval "$2" >$output 2>&1 || fail $output "$1: exit code $?" ;;
    esac
}
interrupt() { # OUTPUT
    kill -INT -- -${pids[$1]} || fail $1 "${paths[$1]}: ended before Ctrl-C"
    wait ${pids[$1]}
    local code=$?
    [ $code = 0 ] || [ $code = 130 ] || fail $1 "${paths[$1]}: exit code $code after Ctrl-C"
    unset "pids[$1]"
}
finish() { for job in "${!pids[@]}"; do [ $job = "$node" ] || interrupt $job; done; }
leave() { [ -z "$node" ] || interrupt $node; }
"#;

/// The `sh` blocks of a page: lines with their numbers. Every block names its language.
fn blocks(page: &str, text: &str) -> Vec<Vec<(usize, String)>> {
    let (mut blocks, mut language) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), language) {
            (Some(name), None) => {
                assert!(!name.is_empty(), "{page}:{number}: no language");
                language = Some(name);
                blocks.extend((name == "sh").then(Vec::new));
            }
            (Some(_), Some(_)) => language = None,
            (None, Some("sh")) => blocks.last_mut().unwrap().push((number, line.to_string())),
            _ => (),
        }
    }
    blocks
}

/// Runs the blocks of a page; at its end, all its processes end with its PID namespace.
fn run(root: &Path, page: &str, blocks: &[Vec<(usize, String)>]) {
    let mut script = String::from(SHELL);
    for block in blocks {
        for (number, command) in block {
            let command = command.replace('\'', r"'\''");
            writeln!(script, "run {page}:{number} '{command}'").unwrap();
        }
        script.push_str("finish\n");
    }
    script.push_str("leave\n");
    let weir = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    let bounded =
        "--signal=KILL 120 unshare --mount --net --pid --fork --kill-child --mount-proc bash";
    let mut command = Command::new("timeout");
    command.args(bounded.split(' ')).args(["-c", &script, page]);
    let output = command
        .args([root, weir])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let (said, status) = (String::from_utf8_lossy(&output.stdout), output.status);
    assert!(status.success(), "{said}{page}: {status}");
}

#[test]
fn each_command_of_the_documentation_runs() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "needs root: makes network namespaces");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap();
    let mut pages = vec!["README.md".to_string()];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    pages.sort();
    let (mut ran, mut skipped) = (Vec::new(), Vec::new());
    for page in &pages {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let mut blocks = blocks(page, &text);
        blocks.retain(|block| {
            let is_skipped = |(first, _): &&(&str, &str)| block[0].1.starts_with(first);
            let found = SKIPPED.iter().find(is_skipped);
            skipped.extend(found.map(|(first, _)| *first));
            found.is_none()
        });
        if !blocks.is_empty() {
            run(&root, page, &blocks);
            ran.push(page.as_str());
        }
    }
    assert_eq!(
        ran,
        [
            "README.md",
            "docs/chains.md",
            "docs/cluster.md",
            "docs/node.md",
            "docs/nsm.md",
            "docs/on-demand.md",
            "docs/store.md",
            "docs/wires.md"
        ]
    );
    assert_eq!(skipped, SKIPPED.map(|(first, _)| first), "as listed");
}
