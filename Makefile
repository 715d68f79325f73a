# `make help` lists the targets.

CARGO := scripts/cargo.sh
# cargo fmt does not find these: build.rs includes them, no `mod` line does.
RULES := $(wildcard crates/results/rules/src/detect/*/*.rs)
PROGRAM := target/release/pgassay
PREFIX ?= /usr/local
# Further arguments for pgassay: make assay ARGS='--quick temp:15'
ARGS ?=

# For make calibrate-real: the number of comparisons, and the minutes for each
COMPARISONS ?= 40
MINUTES ?= 2
HISTORIES ?= 40
PLACE ?= /var/tmp/pgassay-histories

.DELETE_ON_ERROR:
.PHONY: help assay build test deny bench soak fuzz attack corpus calibrate calibrate-real purity docs man install clean query-loop builds lab-page-size vendor dist version

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 16

assay: ## install what is missing, build, assay a PostgreSQL, write the report
	@echo "With cold caches the build takes 4 to 5 minutes on 2 idle cores;"
	@echo "the assay itself takes 4 minutes (45 seconds with ARGS=--quick)."
	@scripts/bootstrap.sh assay $(ARGS)
	$(CARGO) build --release --locked --package pgassay
	$(PROGRAM) assay $(ARGS)

build: ## build pgassay in release mode
	@scripts/bootstrap.sh build
	$(CARGO) build --release --locked --package pgassay

# Incremental compilation would double what the build takes of the disk, for the sake of a second build.
test: export CARGO_INCREMENTAL = 0
test: ## run all tests, formatting, clippy, documentation, the extension's and the pages' tests
	@scripts/bootstrap.sh test
	$(CARGO) fmt --all --check
	@$(CARGO) --with rustfmt --check --edition 2024 $(RULES)
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/test-workspace.sh
	scripts/test-extension.sh
	@# These wait for browsers, servers and Python's packages, and judge no time.
	$(MAKE) --jobs 3 --output-sync=target test-compiled test-pages test-records

.PHONY: test-compiled test-pages test-records
test-compiled:
	$(CARGO) test --workspace --features pgassay-kernels/loom --locked --test orders
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	scripts/test-bootstrap.sh
	scripts/check-script.sh
test-pages:
	scripts/test-pages.sh target/debug/pgassay
test-records:
	scripts/test-records.sh target/debug/pgassay

.PHONY: check test-all
check: ## while you work: formatting, types of everything, unit tests and recorded cases of what changed and what uses it
	$(CARGO) fmt --all --check
	@$(CARGO) --with rustfmt --check --edition 2024 $(RULES)
	$(CARGO) check --workspace --all-targets --locked
	scripts/test-changed.sh --test check --test published_profiles --test pmu --test kernels --test report --test weighed

test-all: test ## make test and the slow parts: every major version, the matrix, containers, Slurm, Spark, attack, soak
	PGASSAY_TEST_18="$$(dirname "$$(scripts/postgres-of-debian.sh 18)")" scripts/test-workspace.sh -- --ignored
	$(MAKE) matrix container-test slurm-test records-test attack soak
	LOOM_MAX_PREEMPTIONS=4 $(CARGO) test --workspace --features pgassay-kernels/loom --locked --test orders

.PHONY: record-cases
record-cases: ## record the servers under load that tests/weighed judges again, on a quiet machine (ARGS=NAME: of one test)
	RECORD=1 $(CARGO) test -p pgassay --locked --test weighed -- --test-threads 1 $(ARGS)

deny: ## check the licences, advisories and sources of dependencies (needs cargo-deny)
	@$(CARGO) deny --version >/dev/null 2>&1 || \
		{ echo "cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 3; }
	$(CARGO) deny --locked check licenses bans sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny --locked check --disable-fetch advisories; \
	else echo "the database of advisories is out of reach: not checked" >&2; [ -z "$$CI" ]; fi

bench: build ## benchmark client CPU against pgbench, and inspect against objdump
	$(CARGO) --with bench/client-cpu.sh
	bench/inspect.sh $(PROGRAM)

soak: build ## run for an hour, check for memory growth and leftovers
	bench/soak.sh

fuzz: ## fuzz each parser of untrusted input for a minute
	scripts/fuzz.sh

attack: build ## attack pgassay for an hour: hostile files, servers, signals, disks, users
	@scripts/bootstrap.sh attack
	python3 attack $(ARGS)

.PHONY: pgbench-tests
pgbench-tests: build ## run PostgreSQL's own tests of pgbench (13, 15, 17, 18) on pgassay pgbench
	scripts/pgbench-tests.sh $(PROGRAM)

.PHONY: query-engine
query-engine: ## build pgassay-query, which answers SQL for pgassay query, and put it beside pgassay
	@scripts/bootstrap.sh build
	$(CARGO) build --manifest-path engines/query/Cargo.toml --release --locked
	install -D -m 755 engines/query/target/release/pgassay-query target/release/pgassay-query

.PHONY: slurm-test
slurm-test: ## as root: runs in jobs, load from jobs and pgassay deploy's script on a Slurm of one node (needs slurmd, slurmctld, munge)
	@scripts/bootstrap.sh test
	$(CARGO) build --workspace --locked --bin pgassay
	scripts/test-slurm.sh target/debug/pgassay

.PHONY: container-test
container-test: ## as root: runs in containers, load from containers, kills, by docker exec and kubectl exec (needs dockerd, containerd, kubectl)
	@scripts/bootstrap.sh test
	$(CARGO) build --workspace --locked --bin pgassay
	scripts/test-containers.sh target/debug/pgassay

.PHONY: records-test
records-test: ## tables of runs: ten questions to pgassay-query, DuckDB and Spark (needs Java), answered alike; Apache Otava
	@scripts/bootstrap.sh test
	$(CARGO) build --workspace --locked --bin pgassay
	$(CARGO) build --manifest-path engines/query/Cargo.toml --locked
	install -m 755 engines/query/target/debug/pgassay-query target/debug/pgassay-query
	scripts/test-records.sh target/debug/pgassay spark

.PHONY: trino-test
trino-test: ## the ten questions to Trino, held against DuckDB's answers (needs Maven, and Java 24 or newer in JAVA_HOME)
	@scripts/bootstrap.sh test
	$(CARGO) build --workspace --locked --bin pgassay
	scripts/test-trino.sh target/debug/pgassay

.PHONY: own-load
own-load: build ## twelve statements recorded both ways, run on the installed version and on 18, an index lost; statistics carried to 18
	PGASSAY_TEST_18="$$(dirname "$$(scripts/postgres-of-debian.sh 18)")" \
		$(CARGO) test -p pgassay --locked --test program -- --ignored --exact own_copies::a_copy_in_18_plans_by_the_originals_statistics
	bench/own-load.py $(PROGRAM) "$$(pg_config --bindir)" \
		"$$(dirname "$$(scripts/postgres-of-debian.sh 18)")" $(PAIRS)

corpus: build ## verify inspect against objdump on published packages and own builds
	$(CARGO) --with scripts/corpus.sh

builds: build ## build PostgreSQL in variants and for arm64, verify each build
	bench/builds.sh $(PROGRAM)

calibrate: ## simulate the error rates of comparisons
	$(CARGO) --with bench/calibrate.sh

.PHONY: search-rates
search-rates: ## simulate how often the search for the causes of a change errs
	$(CARGO) --with bench/search-rates.sh

.PHONY: histories
histories: build ## search HISTORIES histories of PostgreSQL's source for planted slowdowns, in PLACE
	bench/histories.py $(PROGRAM) $(PLACE) $(HISTORIES)

calibrate-real: build ## run COMPARISONS comparisons of equal servers, and a quarter of slower ones twice, MINUTES each; replay them
	$(CARGO) --with bench/calibrate-real.sh $(PROGRAM) $(COMPARISONS) $(MINUTES)

purity: ## verify by CPU samples that primitives measure what they claim
	pg_config=$$(scripts/postgres-with-symbols.sh) && bench/purity.sh "$$pg_config"

.PHONY: matrix
matrix: build ## provoke bottlenecks on real servers, count how many are found
	scripts/matrix.sh $(PROGRAM)

lab-page-size: build ## scattered reads on emulated kernels with 4, 16 and 64 KiB pages
	labs/page-size/run.sh

.PHONY: lab-numa
lab-numa: build ## the axes over memory nodes and threads of a core, in a guest that has two of each
	labs/numa/run.sh

.PHONY: lab-lines
lab-lines: build ## lines of a session stepped on emulated arm64 and POWER kernels, against those that the emulator's plugin records
	labs/lines/run.sh

docs: ## regenerate the bottlenecks' pages and the JSON Schemas in docs/
	$(CARGO) run --locked --package pgassay-rules --example catalogue_docs -- docs
	BLESS=1 $(MAKE) schema-test

.PHONY: schema-test
schema-test: ## check that the JSON Schemas in docs/schema are those of the structs
	$(CARGO) test --workspace --locked --features pgassay/schema --test schemas

query-loop: ## where a query's CPU time goes, over the wire and in a loop inside the server
	pg_config=$$(scripts/postgres-with-symbols.sh) && bench/query-loop.sh "$$pg_config"

man: build ## write the manual page and completions below target/
	mkdir -p target/man
	$(PROGRAM) man > target/man/pgassay.1
	for shell in bash zsh fish; do $(PROGRAM) completions $$shell > target/man/pgassay.$$shell; done

install: man ## install below PREFIX (/usr/local)
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/pgassay
	[ ! -x target/release/pgassay-query ] || \
		install -m 755 target/release/pgassay-query $(DESTDIR)$(PREFIX)/bin/pgassay-query
	install -D -m 644 target/man/pgassay.1 $(DESTDIR)$(PREFIX)/share/man/man1/pgassay.1
	install -D -m 644 target/man/pgassay.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pgassay
	install -D -m 644 target/man/pgassay.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pgassay
	install -D -m 644 target/man/pgassay.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pgassay.fish

dist: ## tar.gz, wheel, .deb and .rpm for three processors, SBOM and checksums, into dist/
	scripts/dist.sh

.PHONY: ansible-test
ansible-test: build ## the Ansible collection on three hosts in namespaces, and what deploy writes (root, sshd)
	scripts/test-ansible.sh $(PROGRAM)

.PHONY: fleet-bench
fleet-bench: build ## a fleet of a thousand hosts with planted findings and odd ones
	bench/fleet.py $(PROGRAM) "$$(mktemp -d)/fleet"

.PHONY: foreign-kernels
foreign-kernels: build ## kernels on arm64 and POWER under qemu: whether they are right, and what they execute
	scripts/foreign-kernels.sh $(PROGRAM)

.PHONY: try-dist reproduce
try-dist: ## the packages in dist/ as root: rpm systems, CI templates, images, arm64 and ppc64le under qemu
	scripts/try-rpm.sh
	scripts/try-ci.sh
	scripts/try-containers.sh
	scripts/try-foreign.sh aarch64
	scripts/try-foreign.sh ppc64le

reproduce: ## build the packages again elsewhere, and compare them with those in dist/
	scripts/reproduce.sh

vendor: ## sources with all crates into dist/, to build without a network
	scripts/vendor.sh

version: ## set the version everywhere: make version VERSION=0.2.0
	scripts/version.sh "$(VERSION)"

clean: ## remove build output
	$(CARGO) clean
