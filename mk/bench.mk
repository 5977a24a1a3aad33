# SPDX-License-Identifier: Apache-2.0
# make bench [BENCH_ARGS='--full']: the budgets against the peers that are installed, same machine, same run.
# Only a whole run replaces the table in docs/.

BENCH_TOOLS := $(addprefix $(B)/bench/,spawn exec-conn gate_client gate_server gate_relay gate_ways)
$(B)/bench/spawn: bench/spawn.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -o $@ $<
$(B)/bench/exec-conn: bench/exec-conn.c $(call glibs,http model base)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(filter %.a,$^)
$(B)/bench/gate_%: bench/gate_%.c bench/gate_io.c bench/gate_io.h
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o $@ $(filter %.c,$^) -lssl -lcrypto

.PHONY: bench-tools
bench-tools: $(BENCH_TOOLS)
bench:
	@tools/deps build bench
	@$(MAKE) -s -j$$(nproc) all bench-tools
	@tests/compat/e2b/install $(abspath $(B)/..)/e2b >/dev/null 2>&1 || echo "bench: E2B's SDK could not be installed"
	@/usr/bin/python3 -B bench/bench.py --build $(B) $(if $(filter --only% --quick,$(BENCH_ARGS)),,--md docs/benchmarks.md) $(BENCH_ARGS)
