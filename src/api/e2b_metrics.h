// SPDX-License-Identifier: Apache-2.0
// What a sandbox uses, as E2B shows it: sampled when it is asked for.
#pragma once
#include "api/e2b_int.h"

struct e2b_metric {
	uint64_t at;	 // Unix ms
	uint64_t ticks;	 // of the processor, by all processes that are there
	double cpu_pct;	 // since the sample before, of all its processors
	uint64_t cpus, mem, mem_total, disk, disk_total; // bytes
};
// m NULL: it could not be had. Of a running sandbox.
void e2b_metrics_sample(struct engine *g, const struct e2b_box *b, void (*fn)(void *ctx, const struct e2b_metric *m), void *ctx);
void e2b_metrics_free(void);
