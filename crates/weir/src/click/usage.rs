//! What `weir click` says of itself.

/// Where to find help.
pub fn short(program: &str) -> String {
    format!(
        "Usage: {program} [OPTION]... [ROUTERFILE]\n\
         Try '{program} --help' for more information."
    )
}

/// All options.
pub fn long(program: &str) -> String {
    let batch = super::default_batch(program);
    format!(
        "\
Runs a Click router configuration as a program of this machine. Errors in the
configuration go to standard error; without any, the router runs until it stops
itself or is interrupted.

Usage: {program} [OPTION]... [ROUTERFILE] [NAME=VALUE]...

ROUTERFILE may be the name of a function, unless the program is called 'click':
'weir function' lists them. NAME=VALUE and -p NAME=VALUE set its parameters.

Options:
  -f, --file FILE               Read the configuration from FILE, '-' for
                                standard input.
  -e, --expression EXPR         Use EXPR as the configuration.
  -j, --threads N               Run on N threads (default 1), 64 at most. Tasks
                                run on thread 0 unless StaticThreadSched,
                                BalancedThreadSched or a 'home_thread' handler
                                assigns another.
  -a, --affinity[=N]            Keep threads on CPUs, from CPU N on (default 0).
  -p, --port PORT               Take control connections on TCP port PORT;
                                PORT+ takes the next free one.
      --link NAME=dev:IF        FromNetfront(NAME) and ToNetfront(NAME) use the
                                interface IF of this machine, and not NAME.
  -u, --unix-socket FILE        Take control connections on a Unix socket.
      --socket FD               Speak the control protocol on descriptor FD.
  -R, --allow-reconfigure       Provide a writable 'hotconfig' handler.
  -h, --handler ELEMENT.H       Print ELEMENT's read handler H when the router
                                has stopped.
  -x, --exit-handler ELEMENT.H  Exit with the value of handler ELEMENT.H.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Do not run the router.
  -t, --time                    Print how long the router ran.
  -w, --no-warnings             Do not print warnings.
      --simtime[=T]             Run in simulated time, from T on.
      --batch N                 Move at most N packets at a time, 1 to 64; with 1,
                                the default of a command called 'click', the
                                order of events is exactly Click's. Default: {batch}.
  -C, --clickpath PATH          Use PATH for CLICKPATH.
      --help                    Print this and exit.
  -v, --version                 Print the version and exit.

Examples:
  {program} -e 'RatedSource(RATE 10, LIMIT 20) -> Print -> Discard'
  {program} router.click -p 7777 -R
  {program} -q router.click -h flatconfig
  {program} firewall -p rules=rules.txt --link inside=dev:eth1 --link outside=dev:eth2
"
    )
}

/// All options of `click-flatten`.
pub fn flatten(program: &str) -> String {
    format!(
        "\
Writes a Click configuration without its compound elements: every element
declared, every connection between two of them. Classes need not be known.

Usage: {program} [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Options:
  -f, --file FILE        Read the configuration from FILE, '-' for standard input.
  -e, --expression EXPR  Use EXPR as the configuration.
  -c, --classes          Write the names of the classes that are used.
  -n, --names            Write the elements' names.
  -d, --declarations     Write the elements' names and classes.
      --config           Write the configuration (default).
      --expand-vars      Accepted; variables are always expanded.
  -o, --output FILE      Write to FILE.
  -C, --clickpath PATH   Use PATH for CLICKPATH.
      --help             Print this and exit.
  -v, --version          Print the version and exit.
"
    )
}

/// What `click-buildtool` can do.
pub fn buildtool(program: &str) -> String {
    format!(
        "\
Tells whether element classes and features exist.

Usage: {program} provides NAME...

Exits with 0 if every NAME is an element class that 'weir click' has, or a
feature such as 'userlevel' or 'umultithread'; else with 1.
"
    )
}

/// The version of the language and of this program.
pub fn version() -> String {
    format!(
        "click (Weir {}) {}\nLicensed under the Apache License, Version 2.0. There is no warranty.\n",
        env!("CARGO_PKG_VERSION"),
        router::VERSION
    )
}
