# Weir: everything from here. Each target sets up what it needs on a fresh Debian machine.

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# What the demo and the tests drive traffic with.
PACKAGES := gcc clang libc6-dev pkg-config iproute2 iputils-ping iperf3 wrk redis-server curl bind9-dnsutils nginx-light tcpdump ethtool nfdump nftables xenstore-utils dpdk-dev qemu-system-x86 ipxe
# Subscribers of a BRAS: a RADIUS server; PPPoE and PPP, for kernels that have them.
PACKAGES += freeradius ppp pppoe
# Many hosts: etcd, and what its client is built with.
PACKAGES += etcd-server etcd-client wireguard-tools wireguard-go protobuf-compiler libprotobuf-dev
# Programs whose system calls are intercepted.
PACKAGES += busybox-static $(shell command -v go >/dev/null || [ -x /usr/local/go/bin/go ] || echo golang-go)
# What the clients in other languages are written in.
PACKAGES += python3 python3-pyftpdlib python3-venv openssl ocaml-nox ocaml-dune libcohttp-ocaml-dev libppx-sexp-conv-ocaml-dev libssl-ocaml-dev \
	libyojson-ocaml-dev libppx-deriving-yojson-ocaml-dev libounit-ocaml-dev
# A Node.js that is not Debian's may bring npm itself.
PACKAGES += $(shell command -v npm >/dev/null || echo nodejs npm)

# What is measured beside us, where it can be had.
PEERS := openvswitch-switch

TARGET = $(or $(CARGO_TARGET_DIR),target)

.PHONY: install deb deb-test run test soak bench lint fuzz conformance docs clients setup peers clean help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: setup ## Show a firewall in a tiny VM on real traffic
	$(CARGO) build --release --quiet --package weir
	$(SUDO) $(TARGET)/release/weir demo firewall

# Tests wait more than they compute: in each of the two halves, as many at a time as there are processors. With twice
# as many, clusters of hosts starve on a slow machine.
test: export RUST_TEST_THREADS ?= $(shell nproc)
test: setup lint ## Run all tests (as root: they make network namespaces and guests)
	$(CARGO) test --workspace --no-run
	$(MAKE) --keep-going --jobs 2 test-first test-second

# Two halves that take alike long, side by side.
.PHONY: test-first test-second
test-first:
	$(CARGO) test --workspace --no-fail-fast --lib --bins --test '[a-cef]*'

test-second:
	$(CARGO) test --workspace --no-fail-fast --test '[!a-cef]*'

SOAK_ROUNDS ?= 500
SOAK_EXAMPLES ?= 300
soak: setup ## Kill the node, and any process of a cluster, SOAK_ROUNDS times at random points of its work, try the API by SOAK_EXAMPLES requests an operation (as root)
	WEIR_ROUNDS=$(SOAK_ROUNDS) $(CARGO) test --quiet --package weir --test node -- crashes --nocapture
	WEIR_ROUNDS=$(SOAK_ROUNDS) $(CARGO) test --quiet --package weir --test cluster -- kills --nocapture
	WEIR_EXAMPLES=$(SOAK_EXAMPLES) $(CARGO) test --quiet --package weir --test clients -- the_api --nocapture

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	@# Modules that a macro declares are not found by cargo.
	rustfmt --edition 2024 --check $$(find crates/elements/src -name '*.rs')
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@# The fuzz targets are a workspace of their own. Nothing is linked here, so libFuzzer is not built.
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml \
		--no-default-features --features guest --bin elements

bench: setup peers ## Measure; results go to bench/results
	bench/run

CONFORMANCE_SECONDS ?= 60
CLICK ?= $(CLICK_SOURCE)/userlevel/click
conformance: setup ## Run Click's own tests, CPython's tests of sockets, and CONFORMANCE_SECONDS of random cases beside CLICK
	$(CARGO) build --release --quiet --package weir
	tests/clicktest.sh
	$(SUDO) tests/sockettest.sh -c $(TARGET)/release/weir
	CLICK=$(CLICK) CONFORMANCE_SECONDS=$(CONFORMANCE_SECONDS) $(CARGO) test --release --quiet \
		--package weir --test differential -- --ignored --nocapture

docs: setup ## Write the reference of elements and functions from their declarations
	$(CARGO) run --quiet --package weir -- element --markdown docs/elements
	$(CARGO) run --quiet --package weir -- function --markdown docs/functions

clients: setup ## Write the generated part of the clients from the API's description
	$(CARGO) build --quiet --package weir
	@for client in python typescript ocaml; do \
		clients/$$client/check --write $(TARGET)/debug/weir $(TARGET)/clients/$$client || exit 1; \
	done

FUZZ_SECONDS ?= 60
fuzz: setup ## Run every fuzz target for FUZZ_SECONDS
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --quiet cargo-fuzz
	@mkdir -p fuzz/target && rustc --edition 2024 -o fuzz/target/element_seeds fuzz/element_seeds.rs
	@cd fuzz && target/element_seeds ../docs/elements seeds/elements elements.dict
	@cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
		echo "fuzz $$target"; mkdir -p corpus/$$target; \
		ASAN_OPTIONS=allocator_may_return_null=1 $(CARGO) +nightly fuzz run \
			$$([ $$target != elements ] || echo --no-default-features --features guest) \
			$$target corpus/$$target $$(ls -d seeds/$$target 2>/dev/null) -- \
			$$([ $$target != elements ] || echo -malloc_limit_mb=1000000) \
			$$(ls $$target.dict 2>/dev/null | sed 's/^/-dict=/') \
			-max_total_time=$(FUZZ_SECONDS) -verbosity=0 || exit 1; \
	done

# What packages have beside the program: manual pages and completions.
packaging/made: $(TARGET)/release/weir
	@rm -rf $@ && mkdir -p $@
	$< man $@/man
	$< completions bash >$@/weir.bash && $< completions zsh >$@/_weir && $< completions fish >$@/weir.fish

.PHONY: $(TARGET)/release/weir
$(TARGET)/release/weir: setup
	$(CARGO) build --release --quiet --package weir --package service

PREFIX ?= /usr/local
install: packaging/made ## Install the program, its symbols, manual pages, completions, unit and ServiceLib below PREFIX, in DESTDIR
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(PREFIX)/lib
	objcopy --only-keep-debug $(TARGET)/release/weir $(DESTDIR)$(PREFIX)/bin/.debug/weir.debug
	objcopy --strip-all --add-gnu-debuglink=$(DESTDIR)$(PREFIX)/bin/.debug/weir.debug $(TARGET)/release/weir $(DESTDIR)$(PREFIX)/bin/weir
	install -D -m 644 crates/service/include/weir_nsm.h $(DESTDIR)$(PREFIX)/include/weir_nsm.h
	install -s -m 755 $(TARGET)/release/libweir_nsm.so $(DESTDIR)$(PREFIX)/lib/libweir_nsm.so
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 && install -m 644 packaging/made/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 packaging/made/weir.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
	install -D -m 644 packaging/made/_weir $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_weir
	install -D -m 644 packaging/made/weir.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/weir.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in weir weir-cluster; do \
		sed 's|/usr/bin/weir|$(PREFIX)/bin/weir|' packaging/$$unit.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service; \
	done
	[ -e $(DESTDIR)/etc/weir/node.toml ] || install -D -m 600 packaging/node.toml $(DESTDIR)/etc/weir/node.toml

deb: packaging/made ## Make a Debian package in target/debian
	@command -v cargo-deb >/dev/null || $(CARGO) install --quiet --locked cargo-deb
	$(CARGO) deb --no-build --package weir

deb-test: deb ## Install the package on a clean Debian in a folder, and have it run a guest (as root)
	@command -v debootstrap >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
	$(SUDO) packaging/test-deb.sh "$$(ls -t $(TARGET)/debian/weir_*.deb | head -n 1)"

clean: ## Remove what was built
	$(CARGO) clean

setup:
	@missing=$$(for p in $(PACKAGES); do \
		dpkg-query -W -f='$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || echo $$p; done); \
	if [ -n "$$missing" ]; then \
		echo "installing $$missing" | tr '\n' ' '; echo; \
		{ $(SUDO) apt-get update -qq && \
		  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		} >/dev/null || { echo "these Debian packages could not be installed:" $$missing "— install them and run make again" >&2; exit 1; }; \
	fi
	@[ -e $(TARGET)/linux/boot ] || { \
		{ apt-cache show linux-image-cloud-amd64 >/dev/null || $(SUDO) apt-get update -qq; } && \
		mkdir -p $(TARGET)/linux/packages && cd $(TARGET)/linux/packages && \
		kernel=$$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p') && \
		echo "fetching $$kernel and busybox-static for a guest" && \
		apt-get download -qq $$kernel busybox-static && \
		for package in *.deb; do dpkg-deb -x $$package .. || exit 1; done; \
	} 2>/dev/null || echo "a kernel for a Linux guest could not be fetched: the test `vhost` of the switch fails without it" >&2
	@rm -rf $(TARGET)/linux/packages
	@command -v $(CARGO) >/dev/null || { $(SUDO) apt-get install -y -qq rustup >/dev/null 2>&1 && rustup show >/dev/null; } || \
		{ echo "cargo is missing and Debian has no rustup package here: install rustup, which reads rust-toolchain.toml" >&2; exit 1; }

# Their services are not to run because of that: the benchmarks start what they need themselves.
peers:
	@missing=$$(for p in $(PEERS); do \
		dpkg-query -W -f='$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || echo $$p; done); \
	if [ -n "$$missing" ]; then \
		echo "installing $$missing" | tr '\n' ' '; echo; \
		policy=/usr/sbin/policy-rc.d; \
		if [ ! -e $$policy ]; then \
			trap "$(SUDO) rm -f $$policy" EXIT; \
			printf '#!/bin/sh\nexit 101\n' | $(SUDO) tee $$policy >/dev/null; $(SUDO) chmod 755 $$policy; \
		fi; \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null || \
			echo "these Debian packages could not be installed and are left out:" $$missing >&2; \
	fi
