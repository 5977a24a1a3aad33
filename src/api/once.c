// SPDX-License-Identifier: Apache-2.0
#include "api/once.h"

#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 255
#define WAITERS_MAX 64

// One that is under way.
struct once {
	char *key;
	char sha256[SHA256_HEX];
	struct engine *engine;
	once_replay *replay;
	struct request *waiters[WAITERS_MAX]; // the same, sent again meanwhile
	int n_waiters;
	struct once *next;
};
static struct once *all; // one server in a process

void once_replay_sandbox(struct request *r, const char *sandbox, const char *exec)
{
	struct err e;
	struct exec_row x;
	struct jsonw w = {.b = &r->answer};
	const struct sandbox *s = engine_get(r->engine, sandbox, &e);
	if (!s) {
		err_set(&e, ERR_NOT_FOUND, "sandbox %s was made under this key and has been removed since", sandbox);
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	encode_sandbox_members(&w, r->engine, s);
	if (exec[0] && !engine_exec_get(r->engine, exec, &x, &e)) {
		jw_key(&w, "exec");
		encode_exec(&w, &x);
		exec_row_done(&x);
	}
	jw_key(&w, "attach"); // the first one had the ticket; its output is kept
	jw_null(&w);
	jw_close(&w, '}');
	request_set_header(r, "Idempotent-Replayed", "true");
	request_answer(r, 201);
}

static int settle(struct request *r, const char *key, const char *sha256, once_replay *replay, struct err *e)
{
	struct creation_row c;
	static const char other[] = "this Idempotency-Key was used for another request: use a new one";
	for (struct once *o = all; o; o = o->next)
		if (!strcmp(o->key, key)) {
			if (strcmp(o->sha256, sha256))
				return err_set(e, ERR_CONFLICT, "%s", other);
			if (o->n_waiters == WAITERS_MAX)
				return err_set(e, ERR_LIMIT, "this request was sent %d times and is not answered yet", WAITERS_MAX);
			o->waiters[o->n_waiters++] = r;
			return 0;
		}
	int rc = engine_creation_get(r->engine, key, &c, e);
	if (rc <= 0)
		return rc ? -1 : 1;
	bool same = !strcmp(c.sha256, sha256);
	if (same)
		replay(r, c.sandbox, c.exec);
	creation_row_done(&c);
	return same ? 0 : err_set(e, ERR_CONFLICT, "%s", other);
}

int once_begin(struct request *r, once_replay *replay, struct once **out)
{
	struct err e;
	char sha256[SHA256_HEX];
	const char *given = request_header(r, "Idempotency-Key");
	*out = NULL;
	if (!given)
		return 1;
	if (!*given || strlen(given) > KEY_MAX) {
		err_set(&e, ERR_INVALID, "an Idempotency-Key is 1 to %d bytes", KEY_MAX);
		request_fail(r, &e);
		return 0;
	}
	auto_free char *key = xasprintf("%s %s", r->who->id[0] ? r->who->id : r->who->name, given);
	sha256_hex(r->body.n ? r->body.p : "", r->body.n, sha256);
	int rc = settle(r, key, sha256, replay, &e);
	if (rc < 0)
		request_fail(r, &e);
	if (rc <= 0)
		return 0;
	struct once *o = xcalloc(1, sizeof *o);
	*o = (struct once){.key = take(&key), .engine = r->engine, .replay = replay, .next = all};
	memcpy(o->sha256, sha256, sizeof sha256);
	all = o;
	*out = o;
	return 1;
}

void once_end(struct once *o, const struct err *e, const struct outcome *made)
{
	if (!o)
		return;
	list_unlink(&all, o, next);
	bool kept = !e && made->sandbox; // a setup that has to run first made nothing yet
	char sandbox[ID_SIZE] = "", exec[ID_SIZE] = "";
	if (kept) { // first: while one is answered the next may be read
		memcpy(sandbox, made->sandbox->id, sizeof sandbox);
		if (made->exec)
			memcpy(exec, made->exec->id, sizeof exec);
		struct creation_row c = {.key = xstrdup(o->key)};
		memcpy(c.sha256, o->sha256, sizeof c.sha256);
		memcpy(c.sandbox, sandbox, sizeof c.sandbox);
		memcpy(c.exec, exec, sizeof c.exec);
		engine_creation_add(o->engine, &c);
	}
	struct err again;
	err_set(&again, ERR_UNAVAILABLE, "the project's setup runs first: ask again");
	for (int i = 0; i < o->n_waiters; i++)
		if (kept)
			o->replay(o->waiters[i], sandbox, exec);
		else
			request_fail(o->waiters[i], e ? e : &again);
	free(o->key);
	free(o);
}
