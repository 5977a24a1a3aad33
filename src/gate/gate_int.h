// SPDX-License-Identifier: Apache-2.0
// What the gate's own files tell each other; opened connections need none of it.
#pragma once
#include "gate/gate.h"
#include "model/msg.h"

// event.c
// Which command it was, as M_WHO answers; all borrowed.
struct asker {
	uint32_t pid;		    // 0 = not known
	const char *exec, *command; // "" or NULL = not known
};
// rule, who: NULL = none, not known.
void gate_denied_name(struct gate *g, const struct host_name *name, const char *why, const char *rule, const struct asker *who);
void event_init(struct gate *g);

// judge.c
void asks_init(struct gate *g);
void asks_answer(struct gate *g, uint32_t id, enum verdict v,
		 enum answer_scope scope); // an unknown id is late: ignored
void asks_policy(struct gate *g);	   // the policy is new: remembered answers go, held questions are judged again

// pass.c: two sockets and what flows between them, moved by splice. Starts held: the client's bytes are not read,
// on_first is called instead when there are some; what comes from upstream flows.
struct pass;
struct pass_calls {
	void (*on_first)(struct conn *c);		   // held, and pass_listen said so
	void (*on_end)(struct conn *c, const char *error); // both directions ended (error NULL), or failed
};
struct pass *pass_new(struct conn *c, int client, const struct pass_calls *calls); // takes client
int pass_client(const struct pass *p);						   // borrowed
void pass_listen(struct pass *p, bool on); // held: wait for the client's bytes, or only for its end
void pass_release(struct pass *p, const void *first, size_t n); // flow: first these bytes (copied), then all others
void pass_upstream(struct pass *p, int fd);			// takes fd
int pass_take_client(struct pass *p);				// the caller's now; then pass_free
// Before pass_upstream: what comes from there is shown first, until fn says that it has seen enough. PASS_STOP ends the
// connection before these bytes are passed on.
enum pass_seen { PASS_ENOUGH, PASS_MORE, PASS_STOP };
void pass_tap(struct pass *p, enum pass_seen (*fn)(struct conn *c, const void *bytes, size_t n));
// The same for what the client sends, behind what pass_release gets.
void pass_tap_client(struct pass *p, enum pass_seen (*fn)(struct conn *c, const void *bytes, size_t n));
enum pass_close { PASS_CLOSE, PASS_RESET };
void pass_free(struct pass *p, enum pass_close how);
