// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include "base/str.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {
#define X(id, name) name,
	FAULTS(X)
#undef X
};

static enum fault armed = FAULT_COUNT;
static bool kills;
static uint64_t passes = 1;

void fault_init(void)
{
	const char *env = getenv("SKEP_FAULT");
	struct str rest = env ? str_of(env) : (struct str){0}, part;
	for (int i = 0; str_next(&rest, ':', &part); i++) {
		for (int f = 0; i == 0 && f < FAULT_COUNT; f++)
			if (str_is(part, names[f]))
				armed = f;
		if (i > 0 && str_is(part, "kill"))
			kills = true;
		else if (i > 0 && !str_is(part, "fail") && str_to_u64(part, 1, 1000000, &passes))
			passes = 1;
	}
}

bool fault(enum fault f, struct err *e)
{
	if (f != armed || --passes)
		return false;
	if (kills)
		kill(getpid(), SIGKILL);
	err_set(e, ERR_SYSTEM, "fault injected at %s", names[f]);
	return true;
}

void fault_list(void)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		puts(names[i]);
}
