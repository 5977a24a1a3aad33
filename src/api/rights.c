// SPDX-License-Identifier: Apache-2.0
// Fields that reach out of a sandbox: who may give them. Whoever holds a token may be an agent, or have been talked into
// something by one, so what is not listed here must be harmless on the host.
#include "api/auth.h"
#include "api/code.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

struct right {
	const char *field;
	enum scope scope;
};

// Of a create. Everything else of it is for who may run.
static const struct right create_rights[] = {
	// of the caller's own machine: a token says nothing about who may see what there
	{"caller_path", SCOPE_LOCAL}, {"cache_env", SCOPE_LOCAL}, {"git_env", SCOPE_LOCAL},
	// host paths, the host's loopback, and what weakens the boundary
	{"cwd", SCOPE_ADMIN}, {"mounts", SCOPE_ADMIN}, {"alternates", SCOPE_ADMIN}, {"expose_host", SCOPE_ADMIN}, {"nested", SCOPE_ADMIN}, {"secrets", SCOPE_ADMIN},
	// what may leave a sandbox is for who reviews
	{"net", SCOPE_REVIEW}, {"allow", SCOPE_REVIEW}, {"ask", SCOPE_REVIEW}, {"registries", SCOPE_REVIEW},
};

// Of other bodies: host paths.
static const struct right other_rights[] = {
	{"to", SCOPE_ADMIN}, // apply: into another directory
	{"cwd", SCOPE_ADMIN}, // policy/check
};

static int check(const struct request *r, const struct right *rights, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(r->json, rights[i].field);
		if (!v || json_is_null(v) || json_is_false(v) || rights[i].scope <= r->who->scope)
			continue;
		if (rights[i].scope == SCOPE_LOCAL)
			return err_set(e, ERR_DENIED, "field \"%s\" is for local callers only", rights[i].field);
		return err_set(e, ERR_DENIED, "field \"%s\" needs a token with scope %s, and yours has %s", rights[i].field,
			       scope_name(rights[i].scope), scope_name(r->who->scope));
	}
	return 0;
}

// A URL of the web, and fetched as a stranger: the credentials of the daemon's user are not the token's.
static int check_repo(const struct request *r, struct create *c, struct err *e)
{
	static const char *const stranger[] = {"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
					       "GIT_SSH_COMMAND=/bin/false"};
	if (!c->repo || r->who->scope >= SCOPE_ADMIN)
		return 0;
	if (!str_has_prefix(c->repo, "https://") && !str_has_prefix(c->repo, "http://"))
		return err_set(e, ERR_DENIED, "field \"repo\": directories of the host and other URLs than http and https need a token with scope admin");
	for (size_t i = 0; i < countof(stranger); i++)
		strv_add(&c->git_env, stranger[i]);
	return 0;
}

struct context_search {
	struct request *r;
	const char *context;
	bool foreign;
};

static void find_context(void *ctx, const struct sandbox *s)
{
	struct context_search *f = ctx;
	f->foreign |= s->context && !strcmp(s->context, f->context) && !request_sees(f->r, s);
}

// A context that is there already is answered with its sandbox.
static int check_context(struct request *r, const struct create *c, struct err *e)
{
	struct context_search f = {r, c->context, false};
	if (c->context)
		engine_each(r->engine, find_context, &f);
	return f.foreign ? err_set(e, ERR_DENIED, "this token is not for the sandbox of context %.100s", c->context) : 0;
}

// What it makes is its own, and nobody else's: the label's name has the token's value.
static int own_label(const struct principal *p, struct create *c, struct err *e)
{
	size_t n = strcspn(p->value, "=") + 1;
	for (char **l = c->labels; l && *l; l++) {
		if (!strcmp(*l, p->value))
			return 0;
		if (!strncmp(*l, p->value, n))
			return err_set(e, ERR_DENIED, "this token is for sandboxes with the label %s: what it makes can not have %.100s", p->value, *l);
	}
	strv_add(&c->labels, p->value);
	return 0;
}

int rights_create(struct request *r, struct create *c, struct err *e)
{
	const struct principal *p = r->who;
	if (p->local)
		return 0;
	if (p->on == ON_SANDBOX)
		return err_set(e, ERR_DENIED, "this token is for sandbox %s only: it can not make others", p->value);
	if (check(r, create_rights, countof(create_rights), e) || check_repo(r, c, e) || check_context(r, c, e) ||
	    rights_snapshot(r, c->from, e))
		return -1;
	if (p->on == ON_LABEL && own_label(p, c, e))
		return -1;
	if (p->on == ON_LABEL)
		c->volume_viewer = xstrdup(p->value);
	if (!c->repo && !c->cwd && !c->from)
		c->empty = true; // there is no directory it could mean
	return 0;
}

int rights_fields(struct request *r, struct err *e)
{
	return r->who->local || !r->json ? 0 : check(r, other_rights, countof(other_rights), e);
}

int rights_fork(struct request *r, struct err *e)
{
	const struct principal *p = r->who;
	if (p->local || p->on != ON_SANDBOX)
		return 0;
	return err_set(e, ERR_DENIED, "this token is for sandbox %s only: it can not make others", p->value);
}

int rights_snapshot(struct request *r, const char *word, struct err *e)
{
	if (!word || r->who->local || r->who->on == ON_ALL)
		return 0;
	struct err none; // a name is looked for among those of the sandbox itself
	const struct snapshot *n = engine_snapshot_get(r->engine, word, &none);
	return !n || request_sees_id(r, n->sandbox) ? 0 : err_set(e, ERR_DENIED, "this token is not for snapshot %.40s", word);
}
