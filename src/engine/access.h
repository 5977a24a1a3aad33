// SPDX-License-Identifier: Apache-2.0
// Who may ask, and who did it: tokens, the name under which things are recorded, the journal of the service.
#pragma once
#include "engine/engine.h"

// --- who did it ---
// By whom what happens now is caused, for the journal: a token's name or id, "local", …; "" = skepd itself. An operation keeps it
// to its end. Returns the one before, to be put back.
struct actor {
	char name[44];
	bool local; // the daemon's own user, on its socket
};
struct actor engine_act(struct engine *g, struct actor who);
struct actor engine_actor(const struct engine *g); // for what is done later
void engine_record(struct engine *g, const char *id, const char *type, const char *body); // what a surface did, in a sandbox's journal
// The journal of the service itself, beside those of the sandboxes: who was refused, which tokens were made. Its offset and end as
// of a sandbox's.
void engine_service_record(struct engine *g, const char *type, const char *body);
int engine_service_journal(struct engine *g, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e) MUST_USE;
int engine_service_verify(struct engine *g, struct journal_report *out, struct err *e) MUST_USE;

// --- who may ask ---
// Where the site's configuration, or else the user's, wants skepd to listen. Borrowed lists, NULL = nowhere.
int engine_listen_config(struct engine *g, char *const **out, char *const **out_urls, struct err *e) MUST_USE;
// Empties *want (name, scope, on, value, rate, expires). The token is in out and nowhere else; the row is borrowed.
const struct token_row *engine_token_new(struct engine *g, struct token_row *want, char out[TOKEN_SIZE], struct err *e) MUST_USE;
void engine_tokens(struct engine *g, void (*each)(void *ctx, const struct token_row *t), void *ctx); // newest first
int engine_token_remove(struct engine *g, const char *word, struct err *e) MUST_USE; // id, prefix or name
// A sandbox's own: it may run on itself, and ends with it. Always the same.
int engine_sandbox_token(struct engine *g, const char *id, char out[TOKEN_SIZE], struct err *e) MUST_USE;
// What the holder of this token may. A sandbox's own has the sandbox's id. token_row_done(out) when true.
bool engine_token_match(struct engine *g, const char *text, struct token_row *out);

bool engine_token_lives(struct engine *g, const char *id); // by its id, or the sandbox's: it has not ended yet

int engine_mac(struct engine *g, const char *text, char out[65], struct err *e) MUST_USE; // hex that only we can compute from it
