#!/bin/sh
# Runs CPython's own tests of sockets plain and under GuestLib (`weir sock run`), and prints both counts.
#
#   tests/sockettest.sh [-c COMMAND] [-p PYTHON] [-r REPORT] [-m PATTERN] [MODULE...]
#
# -c COMMAND     the weir under test (default: target/release or target/debug).
# -p PYTHON      a Python with its tests (default: python3; Debian: libpython3-testsuite).
# -r REPORT      a folder that keeps the output of both runs of each module.
# -m PATTERN     only tests that match, as of `python3 -m test -m`.
# MODULE         modules of CPython's tests (default: those below).
#
# Each run is in a network namespace of its own whose loopback is up (as root). A test that does not
# do the same in both runs is printed, and has the script fail unless sockettest.known gives its reason.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
known=$here/tests/sockettest.known
command='' python=python3 report='' pattern='' limit=300
while getopts c:p:r:m: option; do
    case $option in
        c) command=$OPTARG ;;
        p) python=$OPTARG ;;
        r) report=$OPTARG ;;
        m) pattern=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

target=${CARGO_TARGET_DIR:-$here/target}
if [ -z "$command" ]; then
    for profile in release debug; do
        [ -x "$target/$profile/weir" ] && command=$target/$profile/weir && break
    done
fi
[ -x "$command" ] || { echo "build weir first: there is no command to test" >&2; exit 2; }
command=$(readlink -f "$command")
"$python" -c 'import test.test_socket' 2>/dev/null || {
    echo "$python has no tests: install its test suite (Debian: libpython3-testsuite)" >&2
    exit 2
}

[ $# -gt 0 ] || set -- test_socket test_selectors test_socketserver test_httpservers \
    test_asyncio.test_streams test_asyncio.test_server test_asyncio.test_sendfile \
    test_asyncio.test_sock_lowlevel test_asyncio.test_selector_events \
    test_asyncio.test_unix_events test_asyncio.test_base_events test_asyncio.test_events \
    test_asyncio.test_buffered_proto test_asyncio.test_ssl test_asyncio.test_sslproto \
    test_asyncio.test_subprocess test_ssl test_ftplib test_telnetlib test_poplib test_xmlrpc \
    test_urllib2_localnet

work=$(mktemp -d)
space=weir-sockettest-$$
trap 'ip netns del "$space" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
ip netns add "$space"
ip -n "$space" link set lo up
if [ -n "$report" ]; then
    mkdir -p "$report"
    log=$(cd "$report" && pwd)
else
    mkdir "$work/log"
    log=$work/log
fi

# Tests of VSOCK don't end on a machine whose own VSOCK loops back to nobody.
run() { # OUTPUT MODULE [COMMAND...]
    output=$1 module=$2
    shift 2
    set -- "$@" "$python" -m test -u network -v -i '*VSOCK*'
    [ -z "$pattern" ] || set -- "$@" -m "$pattern"
    (cd "$work" && timeout "$limit" ip netns exec "$space" "$@" "$module" >"$output" 2>&1) ||
        [ $? -ne 124 ] || echo "sockettest: no end within $limit s" >>"$output"
}

# The result of each test: "TEST RESULT". A test may print before its result; a test of which no
# result is seen has hung, or ended the run.
results() {
    awk '
        function close_open(result) { if (test != "") print test, result; test = "" }
        /^[A-Za-z_][A-Za-z_0-9]* \(test\.[^ ]+\)/ {
            close_open("none")
            test = substr($2, 2, length($2) - 2)
        }
        test != "" && /(^|\.\.\. )ok$/ { close_open("ok") }
        test != "" && /(^|\.\.\. )(FAIL|ERROR|expected failure)$/ { close_open("failed") }
        test != "" && /(^|\.\.\. )skipped / { close_open("skipped") }
        /^sockettest: no end/ { close_open("none") }
        END { close_open("none") }
    ' "$1" | sort | awk '
        # The client part of a test has a line of its own.
        { if ($2 != "ok" || !($1 in result)) result[$1] = $2 }
        END { for (test in result) print test, result[test] }
    ' | sort
}

count() { # RESULTS RESULT
    awk -v result="$2" '$2 == result' "$1" | wc -l
}

failed=0
printf '%-34s %21s    %21s\n' '' plain GuestLib
printf '%-34s %6s %6s %7s    %6s %6s %7s\n' module ok failed skipped ok failed skipped
for module; do
    run "$log/$module.plain" "$module"
    run "$log/$module.sock" "$module" "$command" sock run --
    for side in plain sock; do
        results "$log/$module.$side" >"$work/$module.$side"
    done
    plain=$work/$module.plain sock=$work/$module.sock
    printf '%-34s %6d %6d %7d    %6d %6d %7d\n' "$module" \
        "$(count "$plain" ok)" $(($(count "$plain" failed) + $(count "$plain" none))) \
        "$(count "$plain" skipped)" \
        "$(count "$sock" ok)" $(($(count "$sock" failed) + $(count "$sock" none))) \
        "$(count "$sock" skipped)"
    if [ ! -s "$plain" ] && [ ! -s "$sock" ]; then
        [ -n "$pattern" ] || { echo "    no test ran"; failed=1; }
        continue
    fi
    join -a 1 -a 2 -e missing -o 0,1.2,2.2 "$plain" "$sock" | awk '$2 != $3' >"$work/differ"
    while read -r test plain sock; do
        reason=$(awk -v test="$test" '
            /^#/ || NF < 2 { next }
            {
                name = $1
                gsub(/[.]/, "[.]", name)
                gsub(/[*]/, ".*", name)
                if (test ~ "^" name "$") { sub(/^[^ ]+ +/, ""); print; exit }
            }' "$known")
        [ -n "$reason" ] || failed=1
        echo "    $test: plain $plain, GuestLib $sock: ${reason:-UNEXPLAINED}"
    done <"$work/differ"
done
exit $failed
