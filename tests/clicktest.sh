#!/bin/sh
# Runs Click's own test suite against a click command and prints a table per directory.
#
#   CLICK_SOURCE=/path/to/click tests/clicktest.sh [-c COMMAND] [-r REPORT] [DIRECTORY...]
#
# CLICK_SOURCE   a checkout of Click or FastClick; its suite is run from there, nothing is copied.
# -c COMMAND     the command under test (default: weir from target/release or target/debug).
# -t COMMAND     the command that is click-flatten and click-buildtool (default: that under test).
# -r REPORT      a file for a line a test: "pass|fail|skip  DIRECTORY/TEST", then what was wrong.
# -a "OPTIONS"   options to give to every click command, for example -a "--batch 1".
# DIRECTORY      directories of the suite (default: all).
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
: "${CLICK_SOURCE:?is to name a checkout of Click}"
suite=$CLICK_SOURCE/test
command= tools= report= options=
while getopts c:t:r:a: option; do
    case $option in
        c) command=$OPTARG ;;
        t) tools=$OPTARG ;;
        r) report=$OPTARG ;;
        a) options=$OPTARG ;;
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/bin" "$work/log"

# The command goes by the name of click. With options, by way of a script.
if [ -z "$options" ]; then
    ln -s "$(readlink -f "$command")" "$work/bin/click"
else
    mkdir "$work/real"
    ln -s "$(readlink -f "$command")" "$work/real/click"
    printf '#!/bin/sh\nexec %s/real/click %s "$@"\n' "$work" "$options" >"$work/bin/click"
    chmod +x "$work/bin/click"
fi
for tool in click-flatten click-buildtool; do
    ln -s "$(readlink -f "${tools:-$command}")" "$work/bin/$tool"
done
# A small nc where there is none: standard input to a TCP port, what comes back to standard output.
if ! command -v nc >/dev/null; then
    cat >"$work/bin/nc" <<'EOF'
#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1]) or exit 1;
$| = 1;
if (my $child = fork) {
    print while <$socket>;
} else {
    print $socket $_ while <STDIN>;
    $socket->flush;
    $socket->shutdown(1);
}
EOF
    chmod +x "$work/bin/nc"
fi
# FastClick's suite asks by LLVM's `not`.
if ! command -v not >/dev/null; then
    printf '#!/bin/sh\n! "$@"\n' >"$work/bin/not"
    chmod +x "$work/bin/not"
fi
# clicktest runs itself in some tests.
PATH=$work/bin:$PATH:$suite
export PATH

[ $# -gt 0 ] || set -- $(cd "$suite" && find . -name '*.clicktest' | cut -d/ -f2 | sort -u)

cat >"$work/one" <<EOF
#!/bin/sh
log=$work/log/\$(echo "\$1" | tr / +)
cd $work
# A test of Click's other tools says nothing of the command under test if they are not there.
for tool in \$(grep -av '^%' "$suite/\$1" | grep -aoE '\\bclick-[a-z]+' | sort -u); do
    command -v "\$tool" >/dev/null || { echo "skip \$1" >"\$log.result"; exit; }
done
if perl $suite/clicktest -t 45 "$suite/\$1" >"\$log" 2>&1; then result=pass; else result=fail; fi
grep -q ' 0 failures, 1 skipped' "\$log" && result=skip
echo "\$result \$1" >"\$log.result"
EOF
chmod +x "$work/one"

# One at a time: some use the same port or group, and hear each other.
for directory; do
    (cd "$suite" && find "$directory" -name '*.clicktest' | sort)
done | xargs -n 1 "$work/one"

printf '%-16s %5s %5s %5s\n' directory pass fail skip
cat "$work"/log/*.result | awk '
    { split($2, path, "/"); n[path[1], $1]++; all[$1]++; seen[path[1]] = 1 }
    END {
        for (d in seen)
            printf "%-16s %5d %5d %5d\n", d, n[d, "pass"], n[d, "fail"], n[d, "skip"] | "sort"
        close("sort")
        printf "%-16s %5d %5d %5d\n", "all", all["pass"], all["fail"], all["skip"]
    }'
if [ -n "$report" ]; then
    for result in "$work"/log/*.result; do
        cat "$result"
        grep -q ^fail "$result" && sed "s|^$suite/||; s/^/    /" "${result%.result}"
    done >"$report" || true
fi
! grep -q ^fail "$work"/log/*.result
