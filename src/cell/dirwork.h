// SPDX-License-Identifier: Apache-2.0
// Work on directories of SKEP_HOME, for skepd: their files belong to ids that only the base namespace of the nursery has.
// Each in a child, which answers over a pipe; the answer goes to skepd under the id of the request.
#pragma once
#include "base/chan.h"
#include "base/loop.h"
#include <sys/types.h>

struct dirwork {
	struct loop *loop;
	struct chan *skepd;
	const char *skep_home;
	pid_t nursery;		// our own process: the children look whether it still lives
	void (*in_child)(void); // closes what a child has no business with
};

void dirwork_remove(struct dirwork *d, struct frame *f); // M_REMOVE: trees
void dirwork_layer(struct dirwork *d, struct frame *f);  // M_LAYER: model/layer.h
