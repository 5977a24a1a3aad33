// SPDX-License-Identifier: Apache-2.0
#include "model/state.h"

#include <assert.h>

static const char *const names[] = {"creating", "stopped", "running", "paused", "failed", "deleting"};
static_assert(sizeof names / sizeof *names == STATES, "a name per state");

#define TO(s) (1u << (s))
static const unsigned moves[STATES] = {
	[STATE_CREATING] = TO(STATE_STOPPED) | TO(STATE_RUNNING) | TO(STATE_FAILED) | TO(STATE_DELETING),
	[STATE_STOPPED] = TO(STATE_RUNNING) | TO(STATE_FAILED) | TO(STATE_DELETING),
	[STATE_RUNNING] = TO(STATE_STOPPED) | TO(STATE_PAUSED) | TO(STATE_FAILED) | TO(STATE_DELETING),
	[STATE_PAUSED] = TO(STATE_RUNNING) | TO(STATE_STOPPED) | TO(STATE_FAILED) | TO(STATE_DELETING),
	[STATE_FAILED] = TO(STATE_RUNNING) | TO(STATE_STOPPED) | TO(STATE_DELETING),
	[STATE_DELETING] = 0,
};

const char *state_name(enum state s)
{
	return s < STATES ? names[s] : "?";
}

bool state_may(enum state from, enum state to)
{
	return from < STATES && to < STATES && (moves[from] & TO(to));
}
