// SPDX-License-Identifier: Apache-2.0
// Order: is this host ours (DNS rebinding), is the page ours (CSRF), whose token is it, is it asking too often. Only then
// is anything said about paths.
#include "api/auth.h"
#include "api/front.h"

#include "api/server_int.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/access.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RATE_DEFAULT 2000 // requests a second of one token

static const struct principal local = {.name = "local", .local = true, .scope = SCOPE_LOCAL};
static const struct principal nobody = {.name = "nobody", .scope = SCOPE_OPEN};
static const struct principal loopback = {.name = "loopback", .scope = SCOPE_ADMIN, .value = ""};

struct bearer {
	struct principal p; // first
	struct token_row row;
};

void principal_free(const struct principal *p)
{
	struct bearer *b = (struct bearer *)p;
	if (!p || p == &local || p == &nobody || p == &loopback)
		return;
	token_row_done(&b->row);
	free(b);
}

// --- where from ---

struct seen {
	const char *host, *origin;
	int hosts, origins;
};

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct seen *s = cls;
	(void)kind;
	if (!strcasecmp(key, "Host"))
		s->host = value, s->hosts++;
	else if (!strcasecmp(key, "Origin"))
		s->origin = value, s->origins++;
	return MHD_YES;
}

static int check_place(struct request *r, struct err *e)
{
	struct seen s = {0};
	MHD_get_connection_values(r->conn, MHD_HEADER_KIND, look, &s);
	if (s.hosts != 1 || !s.host || !front_knows_host(r->tcp, str_of(s.host)))
		return err_status(e, ERR_DENIED, 403, "not asked under a name of this server: use its address, or name it with skep serve --public-url");
	if (!s.origins)
		return 0;
	// A page may ask where it came from, nowhere else: a preview is another host, and so is everything foreign.
	const char *o = s.origin ? s.origin : "";
	const char *authority = str_has_prefix(o, "http://") ? o + 7 : str_has_prefix(o, "https://") ? o + 8 : "";
	if (s.origins == 1 && *authority && !strcasecmp(authority, s.host))
		return 0;
	return err_status(e, ERR_DENIED, 403, "pages of another origin may not use this server");
}

static enum MHD_Result add_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct http_head *h = cls;
	(void)kind;
	if (value && h->n_fields < HTTP_FIELDS_MAX)
		h->fields[h->n_fields++] = (struct http_field){str_of(key), str_of(value)};
	return MHD_YES;
}

// Only the first head of a connection passes the door: a later one may be for another host.
static bool is_for_taker(struct request *r)
{
	const struct front_taker *t = front_get_taker(r->server->front);
	struct http_head h = {.target = str_of(r->target), .minor = 1};
	if (!t)
		return false;
	MHD_get_connection_values(r->conn, MHD_HEADER_KIND, add_field, &h);
	return t->wants(t->ctx, &h);
}

// --- who ---

static const char *given_token(struct request *r)
{
	const char *v = request_header(r, "Authorization");
	if (v && !strncasecmp(v, "Bearer ", 7))
		return v + 7 + strspn(v + 7, " ");
	static const char *const names[] = {"X-API-KEY", "X-Access-Token"};
	for (size_t i = 0; i < countof(names); i++)
		if ((v = request_header(r, names[i])))
			return v;
	// A browser can not set headers of a WebSocket. Anywhere else a token in a URL ends in logs and histories.
	v = request_header(r, "Upgrade");
	return v && !strcasecmp(v, "websocket") ? request_query(r, "token") : NULL;
}

static int take_bearer(struct request *r, const char *text, struct err *e)
{
	struct token_row row;
	uint64_t wait;
	if (!engine_token_match(r->engine, text, &row)) {
		request_set_header(r, "WWW-Authenticate", "Bearer");
		return err_status(e, ERR_DENIED, 401, "a valid token is needed");
	}
	struct bearer *b = xcalloc(1, sizeof *b);
	b->row = row;
	b->p = (struct principal){.name = b->row.name ? b->row.name : b->row.id, .scope = row.scope, .on = row.on, .value = b->row.value,
				  .expires = row.expires};
	memcpy(b->p.id, b->row.id, sizeof b->p.id);
	r->who = &b->p;
	front_until(r->tcp, b->p.expires);
	if (rate_take(b->p.id, row.rate ? row.rate : RATE_DEFAULT, &wait))
		return 0;
	char text_wait[24];
	if (!fmt_to(text_wait, sizeof text_wait, "%llu", (unsigned long long)wait))
		request_set_header(r, "Retry-After", text_wait);
	return err_status(e, ERR_LIMIT, 429, "this token asks too often");
}

int auth_identify(struct request *r, bool open, struct err *e)
{
	r->who = &nobody;
	if (!r->tcp) {
		r->who = &local; // server.c takes no other user there
		return 0;
	}
	if (check_place(r, e))
		return -1;
	if (is_for_taker(r)) {
		request_set_header(r, "Connection", "close");
		return err_status(e, ERR_CONFLICT, 421, "this connection has begun with another host");
	}
	const char *token = given_token(r);
	if (token)
		return open && !token_digits(token) ? 0 : take_bearer(r, token, e);
	if (r->tcp->listener->insecure) {
		const char *site = request_header(r, "Sec-Fetch-Site");
		if (site && strcmp(site, "same-origin") && strcmp(site, "none"))
			return err_status(e, ERR_DENIED, 403, "pages of another origin may not use this server");
		r->who = &loopback;
		return 0;
	}
	if (open)
		return 0;
	request_set_header(r, "WWW-Authenticate", "Bearer");
	return err_status(e, ERR_DENIED, 401, "a valid token is needed");
}

void peer_text(const struct sockaddr_storage *a, char out[PEER_TEXT])
{
	const void *p = a->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr :
						  (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
	if (!inet_ntop(a->ss_family, p, out, PEER_TEXT))
		out[0] = 0;
}

// --- what ---

static bool covers(const struct principal *p, const struct sandbox *s)
{
	if (p->local || p->on == ON_ALL)
		return true;
	if (p->on == ON_SANDBOX)
		return !strcmp(p->value, s->id);
	for (char **l = s->labels; *l; l++)
		if (!strcmp(*l, p->value))
			return true;
	return false;
}

bool auth_token_sees(struct engine *g, const char *token, const struct sandbox *s, struct principal *out, struct actor *who)
{
	struct token_row row;
	if (!engine_token_match(g, token, &row))
		return false;
	struct principal p = {.on = row.on, .value = row.value, .expires = row.expires};
	bool sees = row.scope >= SCOPE_READ && covers(&p, s);
	memcpy(p.id, row.id, sizeof p.id);
	p.value = NULL;
	if (sees && fmt_to(who->name, sizeof who->name, "%s", row.name ? row.name : row.id))
		who->name[0] = 0;
	if (sees)
		*out = p;
	token_row_done(&row);
	return sees;
}

bool request_sees(const struct request *r, const struct sandbox *s)
{
	return covers(r->who, s);
}

bool request_sees_id(const struct request *r, const char *sandbox)
{
	struct err e;
	if (r->who->local || r->who->on == ON_ALL || (r->who->on == ON_SANDBOX && !strcmp(sandbox, r->who->value)))
		return true;
	const struct sandbox *s = engine_peek(r->engine, sandbox, &e);
	return s && covers(r->who, s);
}

static int check_scope(const struct principal *p, enum scope scope, struct err *e)
{
	if (p->local || scope <= p->scope)
		return 0;
	if (scope == SCOPE_LOCAL)
		return err_set(e, ERR_DENIED, "only the daemon's own user may do this, on its unix socket");
	return err_set(e, ERR_DENIED, "this needs a token with scope %s, and yours has %s", scope_name(scope), scope_name(p->scope));
}

int request_may(struct request *r, enum scope scope, const char *sandbox, struct err *e)
{
	const struct principal *p = r->who;
	if (check_scope(p, scope, e))
		return -1;
	if (p->local || p->on == ON_ALL || scope == SCOPE_OPEN)
		return 0;
	if (!sandbox)
		return err_set(e, ERR_DENIED, "this token is for %s %s only", p->on == ON_LABEL ? "sandboxes with the label" : "sandbox", p->value);
	const struct sandbox *s = engine_peek(r->engine, sandbox, e);
	if (!s) // its journal outlives it
		return e->kind == ERR_NOT_FOUND && p->on == ON_SANDBOX && !strcmp(sandbox, p->value) ? 0 : -1;
	return covers(p, s) ? 0 : err_set(e, ERR_DENIED, "this token is not for sandbox %s", s->id);
}

// The sandbox that the first part is, or belongs to; the word before it says what it is. NULL: there is none.
static int first_sandbox(struct request *r, char out[20], const char **out_id, struct err *e)
{
	const char *part = strstr(r->route->path, "/{}");
	*out_id = NULL;
	if (!part || !r->n_parts)
		return 0;
	const char *word = part;
	while (word > r->route->path && word[-1] != '/')
		word--;
	struct str kind = {word, (size_t)(part - word)};
	if (str_is(kind, "sandboxes")) {
		*out_id = r->parts[0];
	} else if (str_is(kind, "execs")) {
		struct exec_row x;
		if (engine_exec_get(r->engine, r->parts[0], &x, e))
			return -1;
		memcpy(out, x.sandbox, sizeof x.sandbox);
		exec_row_done(&x);
		*out_id = out;
	} else if (str_is(kind, "snapshots")) {
		const struct snapshot *n = engine_snapshot_get(r->engine, r->parts[0], e);
		if (!n)
			return -1;
		memcpy(out, n->sandbox, sizeof n->sandbox);
		*out_id = out;
	}
	return 0;
}

enum scope route_scope(const struct route *t)
{
	return (enum scope)(t->scope & ~SEEN_BIT);
}

int auth_admit(struct request *r, struct err *e)
{
	char id[20];
	const char *sandbox;
	enum scope scope = route_scope(r->route);
	if (r->who->local)
		return 0;
	if (check_scope(r->who, scope, e))
		return -1;
	if (r->who->on == ON_ALL || scope == SCOPE_OPEN || r->route->scope & SEEN_BIT)
		return 0;
	if (first_sandbox(r, id, &sandbox, e))
		return -1;
	return request_may(r, scope, sandbox, e);
}
