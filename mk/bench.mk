# SPDX-License-Identifier: Apache-2.0
# make bench [BENCH_ARGS='--full']: the budgets against the peers that are installed, same machine, same run

BENCH_TOOLS := $(B)/bench/spawn $(B)/bench/exec-conn
$(B)/bench/spawn: bench/spawn.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -o $@ $<
$(B)/bench/exec-conn: bench/exec-conn.c $(call glibs,http model base)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(filter %.a,$^)

.PHONY: bench-tools
bench-tools: $(BENCH_TOOLS)
bench:
	@tools/deps build bench
	@$(MAKE) -s -j$$(nproc) all bench-tools
	@/usr/bin/python3 bench/bench.py --build $(B) --md docs/benchmarks.md $(BENCH_ARGS)
