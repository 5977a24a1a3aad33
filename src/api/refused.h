// SPDX-License-Identifier: Apache-2.0
// Who was refused, in the journal of the service. The first of its kind is written at once; those that are like it are counted,
// and their number is written when a minute is over or somebody reads. Nothing that was shown (a token, a link) is written.
#pragma once
#include "base/str.h"
#include <sys/socket.h>

struct engine;
struct loop;

struct refusal {
	int status;
	const char *surface, *why;
	const char *who;  // a token's name or id; "" = nobody that is known
	struct str path;  // of the first one, without its query
	const struct sockaddr_storage *peer;
};
void refused(struct loop *l, struct engine *g, const struct refusal *r);
void refused_flush(void); // what was counted is written
void refused_done(void);  // the same, for good
