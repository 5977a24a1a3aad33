// SPDX-License-Identifier: Apache-2.0
// The life of a sandbox. Legal moves are a table; every move is one transaction in the store.
#pragma once
#include <stdbool.h>

enum state {
	STATE_CREATING,
	STATE_STOPPED, // no cell
	STATE_RUNNING, // a cell is up, also with no command
	STATE_PAUSED,  // a cell is up and frozen
	STATE_FAILED,  // see reason; start tries again
	STATE_DELETING,
	STATES,
};

const char *state_name(enum state s);
bool state_may(enum state from, enum state to);
