# What there is to do here. `make help` says it in a line each.

CARGO := scripts/cargo.sh
PROGRAM := target/release/pgassay
PREFIX ?= /usr/local
# Further arguments of the program: make assay ARGS='--quick temp:15'
ARGS ?=

# Of make calibrate-real: how many, and how long each may take
COMPARISONS ?= 40
MINUTES ?= 2

.DELETE_ON_ERROR:
.PHONY: help assay build test bench soak fuzz corpus calibrate calibrate-real purity docs man install clean query-loop builds lab-page-size

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 16

assay: ## install what is missing, build, measure a PostgreSQL, write the report
	@echo "From empty caches this takes some 10 minutes on 2 quiet cores, most of it compiling;"
	@echo "the assay itself takes 4 minutes (45 seconds with ARGS=--quick)."
	@scripts/bootstrap.sh assay
	$(CARGO) build --release --locked --package pgassay
	$(PROGRAM) assay $(ARGS)

build: ## the program, in release mode
	@scripts/bootstrap.sh build
	$(CARGO) build --release --locked --package pgassay

test: ## all tests, formatting, clippy, documentation, the extension's tests
	@scripts/bootstrap.sh test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --no-fail-fast
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	scripts/test-extension.sh

bench: build ## client CPU against pgbench, and inspect against objdump, alternating
	$(CARGO) --with bench/client-cpu.sh
	bench/inspect.sh $(PROGRAM)

soak: build ## an hour of runs, for memory that grows and things left behind
	bench/soak.sh

fuzz: ## a minute for each parser of foreign bytes
	scripts/fuzz.sh

corpus: build ## inspect against objdump over published packages and own builds
	$(CARGO) --with scripts/corpus.sh

builds: build ## the real PostgreSQL built in variants and for arm64, each checked
	bench/builds.sh $(PROGRAM)

calibrate: ## how often a comparison is wrong, by simulation
	$(CARGO) --with bench/calibrate.sh

calibrate-real: build ## real comparisons of equal servers, COMPARISONS of MINUTES each, and their replay
	$(CARGO) --with bench/calibrate-real.sh $(PROGRAM) $(COMPARISONS) $(MINUTES)

purity: ## how much of a primitive's time is the primitive, by CPU samples
	pg_config=$$(scripts/postgres-with-symbols.sh) && bench/purity.sh "$$pg_config"

.PHONY: matrix
matrix: build ## situations provoked on real servers, and how many of them are found
	scripts/matrix.sh $(PROGRAM)

lab-page-size: build ## scattered reads on emulated kernels with 4, 16 and 64 KiB pages
	labs/page-size/run.sh

docs: ## the pages in docs/ that are made from the catalogue of bottlenecks
	$(CARGO) run --locked --package pgassay-analysis --example catalogue_docs -- docs

query-loop: ## where the CPU time of a query goes, over the wire and in a loop inside the server
	pg_config=$$(scripts/postgres-with-symbols.sh) && bench/query-loop.sh "$$pg_config"

man: build ## the manual page and completions, below target/
	mkdir -p target/man
	$(PROGRAM) man > target/man/pgassay.1
	for shell in bash zsh fish; do $(PROGRAM) completions $$shell > target/man/pgassay.$$shell; done

install: man ## below PREFIX, /usr/local
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/pgassay
	install -D -m 644 target/man/pgassay.1 $(DESTDIR)$(PREFIX)/share/man/man1/pgassay.1
	install -D -m 644 target/man/pgassay.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pgassay
	install -D -m 644 target/man/pgassay.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pgassay
	install -D -m 644 target/man/pgassay.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pgassay.fish

clean: ## what was built
	$(CARGO) clean
