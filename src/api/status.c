// SPDX-License-Identifier: Apache-2.0
// The one table from error kinds to HTTP, and the form of errors.
#include "api/server.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "engine/net.h"
#include <assert.h>

// What to do next, where the message of such an error does not say it by itself.
static const struct {
	short status;
	const char *hint;
} kinds[] = {
	[ERR_NONE] = {500, NULL},
	[ERR_INVALID] = {400, "GET /v1/openapi.json has every path and field"},
	[ERR_NOT_FOUND] = {404, "list what there is: GET /v1/sandboxes, /v1/execs, /v1/snapshots, /v1/images"},
	[ERR_CONFLICT] = {409, NULL},
	[ERR_DENIED] = {403, "use a token with a larger scope, or ask on the unix socket of the daemon's user"},
	[ERR_LIMIT] = {429, "ask again later, or for less"},
	[ERR_TIMEOUT] = {504, "ask again, or with a longer timeout"},
	[ERR_UNAVAILABLE] = {503, "ask again in a moment"},
	[ERR_UNSUPPORTED] = {501, NULL},
	[ERR_SYSTEM] = {500, "skepd.log in SKEP_HOME may tell more"},
	[ERR_BUG] = {500, "skepd.log in SKEP_HOME may tell more"},
};
static_assert(countof(kinds) == ERR_KINDS, "a status per kind");

static const struct {
	int status;
	const char *hint;
} others[] = {
	{401, "make a token with `skep token new` and send it as Authorization: Bearer TOKEN"},
	{403, NULL}, // of no scope
	{413, "send less at once"},
	{415, "send Content-Type: application/json"},
	{421, "open a new connection for this host"},
	{429, "wait as long as Retry-After says"},
};

int status_of(const struct err *e)
{
	return e->sys >= 400 && e->sys < 600 ? e->sys : e->kind < ERR_KINDS ? kinds[e->kind].status : 500;
}

int err_status(struct err *e, enum err_kind kind, int status, const char *message)
{
	err_set(e, kind, "%s", message);
	e->sys = status;
	return -1;
}

static const char *hint_of(const struct err *e)
{
	for (size_t i = 0; i < countof(others); i++)
		if (others[i].status == e->sys)
			return others[i].hint;
	return e->kind < ERR_KINDS ? kinds[e->kind].hint : NULL;
}

void error_body(struct buf *b, const struct err *e)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_key(&w, "error");
	jw_open(&w, '{');
	jw_kstr(&w, "kind", err_kind_name(e->kind));
	jw_kstr(&w, "message", e->msg);
	if (e->kind == ERR_CONFLICT && e->sys == ENGINE_NEEDS_REGISTRIES)
		jw_kstr(&w, "needs", "registries"); // the caller can find them, and ask again
	jw_kstr(&w, "hint", hint_of(e));
	jw_close(&w, '}');
	jw_close(&w, '}');
}
