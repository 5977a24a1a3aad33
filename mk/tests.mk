# SPDX-License-Identifier: Apache-2.0
# make run | test | unit | e2e | fuzz | guest | soak | check | format | lint

run:
	@tools/deps build
	@$(MAKE) -s -j$$(nproc) all
	@tools/run-demo $(B)

# Both need every program; deps first, since building them needs the packages.
test:
	@tools/deps build test
	@$(MAKE) -s -j$$(nproc) all $(B)/skep-mcp-fixture
	@V=$(V) tools/run-tests

unit:
	@V=$(V) tools/run-tests unit
e2e: all
	@V=$(V) tools/run-tests e2e
fuzz:
	@tools/run-tests fuzz
check:
	@V=$(V) tools/run-tests checks

# The limits on a kernel with cgroup v2, in QEMU: two minutes, most of it one core's, so no part of `make test`.
.PHONY: guest
guest:
	@tools/deps build guest
	@$(MAKE) -s -j$$(nproc) all $(B)/unit/isolate_cgroup
	@tests/guest/run.sh $(B)

# The MCP surface with the tables of the protocol's conformance suite behind it: a test program, no part of skepd.
MCP_FIXTURE := $(patsubst tests/mcp/%.c,$(B)/glibc/mcp-fixture/%.o,$(wildcard tests/mcp/*.c))
$(B)/glibc/mcp-fixture/%.o: tests/mcp/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@
$(B)/skep-mcp-fixture: $(MCP_FIXTURE) $(call glibs,$(SKEPD_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lmicrohttpd -lsqlite3 -lsodium -lyaml -lz

# Long runs: an hour of fuzzing, everything again with sanitizers in the programs, much state, random operations.
soak:
	@tools/deps build test
	@FUZZ_SECONDS=600 tools/run-tests fuzz
	@$(MAKE) -s -j$$(nproc) V=asan all
	@EVERYTHING=1 SKEP_TEST_ROUNDS=8 V=asan tools/run-tests e2e
	@$(MAKE) -s -j$$(nproc) all
	@/usr/bin/python3 -B tests/soak/state.py $(B)
	@/usr/bin/python3 -B tests/soak/mixed.py $(B) --minutes 30

# Fuzz targets, in a tree of their own. tests/fuzz/ROOM_NOUN.c links ROOM and everything below it, as unit tests do;
# one named by its noun alone may use the rooms with parsers.
FUZZ_SAN  := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZERS   := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/*.c))
define fuzz_rule
$(B)/fuzz/$(1): tests/fuzz/$(1).c $(call glibs,$(or $(call below,$(firstword $(subst _, ,$(1)))),workspace journal http model base))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) $(FUZZ_SAN) -fsanitize=fuzzer -o $$@ $$< $$(filter %.a,$$^) $(filter-out -lcmocka,$(UNIT_LIBS))
endef
$(foreach f,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)),$(eval $(call fuzz_rule,$(f))))
.PHONY: fuzzers fuzz-programs
fuzz-programs: $(FUZZERS)
fuzzers:
	@$(MAKE) V=fuzz CC=clang CFLAGS_fuzz='-O1 -g -fPIE -DSKEP_CHECKS -fsanitize=fuzzer-no-link $(FUZZ_SAN)' fuzz-programs

format:
	clang-format -i $$(git ls-files '*.c' '*.h')
lint:
	clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h')
	shellcheck tools/deps tools/test-env tools/run-demo tools/run-tests .ci/run
