// SPDX-License-Identifier: Apache-2.0
// Who may ask: tokens, given out once and kept as hashes; and which sandbox was made under which idempotency key.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 10000
#define USED_MS 60000 // how exact the time of last use is
#define CREATIONS_MS (24ULL * 3600 * 1000)

static void keep(void *ctx, struct token_row *taken)
{
	struct engine *g = ctx;
	struct err e;
	bool over = taken->expires && taken->expires <= clock_unix_ms();
	bool lost = taken->on == ON_SANDBOX && !box_by_id(g, taken->value);
	if (over || lost) {
		if (store_token_drop(g->store, taken->id, &e))
			log_line(LOG_WARN, "%s", e.msg);
		token_row_done(taken);
		return;
	}
	g->tokens = xrealloc(g->tokens, (g->n_tokens + 1) * sizeof *g->tokens);
	g->tokens[g->n_tokens++] = *taken;
}

int tokens_load(struct engine *g, struct err *e)
{
	return store_tokens(g->store, keep, g, e);
}

void tokens_free(struct engine *g)
{
	for (size_t i = 0; i < g->n_tokens; i++)
		token_row_done(&g->tokens[i]);
	free(g->tokens);
}

static int check(struct engine *g, struct token_row *t, struct err *e)
{
	if (t->name && !name_is_valid(t->name))
		return err_set(e, ERR_INVALID, "a token's name is 1 to 40 of a-z, 0-9 and -, and not of the form of an id");
	for (size_t i = 0; t->name && i < g->n_tokens; i++)
		if (g->tokens[i].name && !strcmp(g->tokens[i].name, t->name))
			return err_set(e, ERR_CONFLICT, "there is a token %s already (skep token rm %s)", t->name, t->name);
	if (t->scope < SCOPE_READ || t->scope > SCOPE_ADMIN)
		return err_set(e, ERR_INVALID, "a scope is read, run, review or admin");
	if (g->n_tokens >= TOKENS_MAX)
		return err_set(e, ERR_LIMIT, "there are %d tokens: remove some (skep token rm)", TOKENS_MAX);
	if (t->on == ON_SANDBOX) { // by what it is, not by what it is called
		const struct sandbox *s = engine_peek(g, t->value, e);
		if (!s)
			return -1;
		free(t->value);
		t->value = xstrdup(s->id);
	}
	return 0;
}

static void note(struct engine *g, const char *type, const struct token_row *t)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "token", t->id);
	jw_kstr(&w, "name", t->name);
	jw_kstr(&w, "scope", scope_name(t->scope));
	jw_kstr(&w, "on", t->on == ON_ALL ? "all" : t->value);
	engine_service_record(g, type, b.overflow ? "" : buf_cstr(&b));
}

const struct token_row *engine_token_new(struct engine *g, struct token_row *want, char out[TOKEN_SIZE], struct err *e)
{
	struct token_row t = *want;
	char a[KEY_SIZE], b[KEY_SIZE];
	*want = (struct token_row){0};
	if (check(g, &t, e)) {
		token_row_done(&t);
		return NULL;
	}
	key_make(a);
	key_make(b);
	auto_free char *text = xasprintf("skep_%s%s", a, b);
	sha256_hex(text + 5, TOKEN_DIGITS, t.sha256);
	id_make('t', t.id);
	t.created = clock_unix_ms();
	if (store_token_add(g->store, &t, e) || store_flush(g->store, e)) {
		token_row_done(&t);
		return NULL;
	}
	keep(g, &t);
	note(g, "token.made", &g->tokens[g->n_tokens - 1]);
	memcpy(out, text, strlen(text) + 1);
	explicit_bzero(text, strlen(text));
	return &g->tokens[g->n_tokens - 1];
}

void engine_tokens(struct engine *g, void (*each)(void *ctx, const struct token_row *t), void *ctx)
{
	for (size_t i = g->n_tokens; i-- > 0;)
		each(ctx, &g->tokens[i]);
}

int engine_token_remove(struct engine *g, const char *word, struct err *e)
{
	size_t n = strlen(word), at = 0, fit = 0;
	for (size_t i = 0; i < g->n_tokens; i++) {
		const struct token_row *t = &g->tokens[i];
		if (!strcmp(t->id, word) || (t->name && !strcmp(t->name, word))) {
			at = i, fit = 1;
			break;
		}
		if (n >= 3 && !strncmp(t->id, word, n))
			at = i, fit++;
	}
	if (fit != 1)
		return err_set(e, fit ? ERR_CONFLICT : ERR_NOT_FOUND, fit ? "%.40s fits several tokens" : "no token %.40s (skep token ls lists them)", word);
	if (store_token_drop(g->store, g->tokens[at].id, e) || store_flush(g->store, e))
		return -1;
	note(g, "token.removed", &g->tokens[at]);
	token_row_done(&g->tokens[at]);
	memmove(&g->tokens[at], &g->tokens[at + 1], (g->n_tokens - at - 1) * sizeof *g->tokens);
	g->n_tokens--;
	return 0;
}

static void was_used(struct engine *g, struct token_row *t, uint64_t now)
{
	struct err e;
	if (now < t->used + USED_MS)
		return;
	t->used = now;
	if (store_token_used(g->store, t->id, now, &e))
		log_line(LOG_WARN, "%s", e.msg);
	engine_wrote(g);
}

// Every row is looked at, whichever fits: how long it takes tells nothing.
static struct token_row *find(struct engine *g, const char *digits)
{
	char sha256[SHA256_HEX];
	struct token_row *found = NULL;
	sha256_hex(digits, TOKEN_DIGITS, sha256);
	for (size_t i = 0; i < g->n_tokens; i++)
		if (key_equal(g->tokens[i].sha256, sha256))
			found = &g->tokens[i];
	return found;
}

int engine_sandbox_token(struct engine *g, const char *id, char out[TOKEN_SIZE], struct err *e)
{
	const struct sandbox *s = engine_peek(g, id, e);
	const struct seal *seal = s ? engine_seal(g, e) : NULL;
	unsigned char proof[32];
	if (!seal)
		return -1;
	auto_free char *text = xasprintf("token of sandbox %s", s->id);
	seal_mac(seal, text, proof);
	token_of_sandbox(s->id, proof, out);
	return 0;
}

static bool match_sandbox(struct engine *g, const char *digits, struct token_row *out)
{
	char id[17], text[TOKEN_SIZE];
	struct err e;
	if (!token_sandbox(digits, id) || !box_by_id(g, id) || engine_sandbox_token(g, id, text, &e) || !key_equal(text + 5, digits))
		return false;
	*out = (struct token_row){.scope = SCOPE_RUN, .on = ON_SANDBOX, .value = xstrdup(id)};
	memcpy(out->id, id, sizeof id);
	return true;
}

bool engine_token_match(struct engine *g, const char *text, struct token_row *out)
{
	const char *digits = token_digits(text);
	if (!digits)
		return false;
	uint64_t now = clock_unix_ms();
	struct token_row *t = find(g, digits);
	if (!t)
		return match_sandbox(g, digits, out);
	if (t->expires && t->expires <= now)
		return false;
	was_used(g, t, now);
	*out = *t;
	out->name = t->name ? xstrdup(t->name) : NULL;
	out->value = xstrdup(t->value);
	return true;
}

bool engine_token_lives(struct engine *g, const char *id)
{
	for (size_t i = 0; i < g->n_tokens; i++)
		if (!strcmp(g->tokens[i].id, id))
			return !g->tokens[i].expires || g->tokens[i].expires > clock_unix_ms();
	return box_by_id(g, id);
}

// --- idempotency keys ---

int engine_creation_get(struct engine *g, const char *key, struct creation_row *out, struct err *e)
{
	return store_creation_get(g->store, key, clock_unix_ms() - CREATIONS_MS, out, e);
}

void engine_creation_add(struct engine *g, struct creation_row *c)
{
	struct err e;
	c->at = clock_unix_ms();
	if (store_creation_add(g->store, c, c->at - CREATIONS_MS, &e))
		log_line(LOG_WARN, "%s", e.msg);
	engine_wrote(g);
	creation_row_done(c);
}
