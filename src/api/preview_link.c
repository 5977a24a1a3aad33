// SPDX-License-Identifier: Apache-2.0
// Links are computed, not kept: a signature over sandbox, port and end. What is kept is which of them were taken back: single ones by
// their signature, until they would have ended; all of a sandbox or of one of its ports by a number that counts up and is signed too.
#include "api/preview.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/access.h"
#include <stdlib.h>
#include <string.h>

#define REVOKED "preview.revoked"    // note: signature -> sandbox
#define TURNS "preview.turns"	     // note: "SANDBOX PORT", port 0 = all of them -> how often they were taken back
#define REVOKED_MAX 1000

struct taken_back {
	char *key;
	char sandbox[ID_SIZE];
	uint64_t turns; // 0: a single one, which ends at
	uint64_t ends;	// Unix s
	struct taken_back *next;
};

static struct {
	struct engine *engine; // NULL = the notes were not read yet
	struct taken_back *list;
	struct engine_listener gone;
} all; // one server in a process

// --- what was taken back ---

static uint64_t end_of(struct str signature)
{
	struct str rest = signature, digits;
	uint64_t end;
	return str_next(&rest, '-', &digits) && !str_to_u64(digits, 1, UINT64_MAX / 2, &end) ? end : 0;
}

static struct taken_back *find(const char *key)
{
	struct taken_back *t = all.list;
	while (t && strcmp(t->key, key))
		t = t->next;
	return t;
}

static struct taken_back *add(const char *key, const char *sandbox)
{
	struct taken_back *t = xcalloc(1, sizeof *t);
	t->key = xstrdup(key);
	if (fmt_to(t->sandbox, sizeof t->sandbox, "%s", sandbox))
		t->sandbox[0] = 0;
	t->next = all.list;
	return all.list = t;
}

static void drop(struct taken_back **p)
{
	struct taken_back *t = *p;
	struct err e;
	*p = t->next;
	if (engine_note_drop(all.engine, t->turns ? TURNS : REVOKED, t->key, &e))
		log_line(LOG_WARN, "%s", e.msg);
	free(t->key);
	free(t);
}

static void on_gone(struct engine_listener *l, const struct sandbox *s, bool gone)
{
	(void)l;
	for (struct taken_back **p = &all.list; gone && *p;)
		if (!strcmp((*p)->sandbox, s->id))
			drop(p);
		else
			p = &(*p)->next;
}

static void read_revoked(void *ctx, const char *key, const char *text)
{
	(void)ctx;
	add(key, text)->ends = end_of(str_of(key));
}

static void read_turns(void *ctx, const char *key, const char *text)
{
	struct str id = str_of(key), sandbox;
	(void)ctx;
	auto_free char *of = str_next(&id, ' ', &sandbox) ? xstrndup(sandbox.p, sandbox.n) : xstrdup("");
	struct taken_back *t = add(key, of);
	if (str_to_u64(str_of(text), 1, UINT64_MAX / 2, &t->turns))
		t->turns = 1;
}

// Those that nobody could use any more are forgotten.
static void forget(void)
{
	struct err e;
	uint64_t now = clock_unix_ms() / 1000;
	for (struct taken_back **p = &all.list; *p;)
		if ((!(*p)->turns && (*p)->ends <= now) || !engine_peek(all.engine, (*p)->sandbox, &e))
			drop(p);
		else
			p = &(*p)->next;
}

static int load(struct engine *g, struct err *e)
{
	if (all.engine)
		return 0;
	if (engine_notes(g, REVOKED, read_revoked, NULL, e) || engine_notes(g, TURNS, read_turns, NULL, e))
		return -1;
	all.engine = g;
	all.gone.fn = on_gone;
	engine_listen(g, &all.gone);
	forget();
	return 0;
}

static uint64_t turns_of(const char *sandbox, unsigned port)
{
	auto_free char *key = xasprintf("%s %u", sandbox, port);
	const struct taken_back *t = find(key);
	return t ? t->turns : 0;
}

static int revoke_one(struct engine *g, const char *sandbox, uint16_t port, struct str signature, struct err *e)
{
	int n = 0;
	if (!preview_check(g, sandbox, port, signature))
		return err_set(e, ERR_NOT_FOUND, "this link is not good for port %u of sandbox %s, or not any more", port, sandbox);
	forget();
	for (const struct taken_back *t = all.list; t; t = t->next)
		n += !t->turns;
	if (n >= REVOKED_MAX)
		return err_set(e, ERR_LIMIT, "%d links were taken back one by one: take back all of the sandbox instead", REVOKED_MAX);
	auto_free char *key = xstrndup(signature.p, signature.n);
	if (engine_note_set(g, REVOKED, key, sandbox, e))
		return -1;
	add(key, sandbox)->ends = end_of(signature);
	return 0;
}

static int revoke_all(struct engine *g, const char *sandbox, uint16_t port, struct err *e)
{
	auto_free char *key = xasprintf("%s %u", sandbox, port);
	struct taken_back *t = find(key);
	uint64_t turns = t ? t->turns + 1 : 1;
	auto_free char *text = xasprintf("%llu", (unsigned long long)turns);
	if (engine_note_set(g, TURNS, key, text, e))
		return -1;
	t = t ? t : add(key, sandbox);
	t->turns = turns;
	return 0;
}

int preview_revoke(struct engine *g, const char *sandbox, uint16_t port, struct str signature, struct err *e)
{
	if (load(g, e))
		return -1;
	if (signature.p ? revoke_one(g, sandbox, port, signature, e) : revoke_all(g, sandbox, port, e))
		return -1;
	return engine_notes_sync(g, e);
}

// --- signatures ---

int preview_sign(struct engine *g, const char *sandbox, uint16_t port, uint64_t expires, char out[PREVIEW_LINK_MAX], struct err *e)
{
	char mac[65];
	auto_buf struct buf text = BUF_INIT(256);
	if (load(g, e))
		return -1;
	uint64_t of_all = turns_of(sandbox, 0), of_port = turns_of(sandbox, port);
	buf_fmt(&text, "preview %s %u %llu", sandbox, port, (unsigned long long)expires);
	if (of_all || of_port)
		buf_fmt(&text, " %llu %llu", (unsigned long long)of_all, (unsigned long long)of_port);
	if (engine_mac(g, buf_cstr(&text), mac, e))
		return -1;
	return fmt_to(out, PREVIEW_LINK_MAX, "%llu-%s", (unsigned long long)expires, mac) ? err_set(e, ERR_BUG, "link") : 0;
}

uint64_t preview_check(struct engine *g, const char *sandbox, uint16_t port, struct str signature)
{
	char want[PREVIEW_LINK_MAX], have[PREVIEW_LINK_MAX];
	uint64_t expires = end_of(signature), now = clock_unix_ms() / 1000;
	struct err e;
	if (expires <= now || fmt_to(have, sizeof have, "%.*s", (int)signature.n, signature.p) ||
	    preview_sign(g, sandbox, port, expires, want, &e))
		return 0;
	return key_equal(want, have) && !find(have) ? expires - now : 0;
}
