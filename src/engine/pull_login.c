// SPDX-License-Identifier: Apache-2.0
// Logins for registries. A secret counts for the host that it is bound to, and Docker's configuration for the hosts that
// it names: neither is sent anywhere else. Credential helpers (credsStore, credHelpers) are programs; they are not run,
// because skepd starts no program but its own.
#include "engine/net_int.h"
#include "engine/pull_int.h"

#include "base/base64.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/policy.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define DOCKER_CONFIG_MAX (1u << 20)
#define LOGIN_MAX (32u << 10)

static void login_wipe(char **p)
{
	if (*p)
		explicit_bzero(*p, strlen(*p));
	free(*p);
	*p = NULL;
}

void pull_login_done(struct pull_login *l)
{
	login_wipe(&l->user);
	login_wipe(&l->password);
	login_wipe(&l->bearer);
	free(l->hint);
	l->hint = NULL;
}

static int login_split(struct pull_login *l, const char *pair, struct err *e)
{
	const char *colon = strchr(pair, ':');
	if (!colon || colon == pair)
		return err_set(e, ERR_INVALID, "a login is user:password");
	l->user = xstrndup(pair, (size_t)(colon - pair));
	l->password = xstrdup(colon + 1);
	return 0;
}

// --- a secret ---

static int login_of_secret(struct engine *g, const char *name, const struct image_endpoint *at, struct pull_login *l, struct err *e)
{
	const struct secret_row *r = secret_find(g, name);
	if (!r)
		return err_set(e, ERR_NOT_FOUND, "no secret %.64s (skep secret ls lists them)", name);
	auto_free char *host = xasprintf("%s:%u", r->host, r->port);
	if (!image_host_same(host, at->host))
		return err_set(e, ERR_DENIED, "secret %s is for %s, the image comes from %.200s: a secret is sent to its own host only", name, host, at->host);
	if (r->as != SECRET_BASIC && r->as != SECRET_BEARER)
		return err_set(e, ERR_INVALID, "secret %s goes as %s: a registry takes basic (user:password) or bearer", name,
			       secret_as_name((enum secret_as)r->as));
	auto_secret struct buf value = BUF_INIT(LOGIN_MAX);
	if (secret_value(g, name, &value, e))
		return -1;
	secret_used(g, name);
	if (r->as == SECRET_BEARER) {
		l->bearer = xstrdup(buf_cstr(&value));
		return 0;
	}
	return login_split(l, buf_cstr(&value), e) ? err_wrap(e, "secret %s", name) : 0;
}

// --- Docker's configuration ---

// A key of auths is a host, or a URL with one.
static bool login_key_is(const char *key, const char *host)
{
	const char *scheme = strstr(key, "://"), *from = scheme ? scheme + 3 : key;
	auto_free char *name = xstrndup(from, strcspn(from, "/"));
	return image_host_same(name, host);
}

static const json_t *login_member(const json_t *o, const char *host)
{
	const char *key;
	json_t *v;
	json_object_foreach(o, key, v)
		if (login_key_is(key, host))
			return v;
	return NULL;
}

static void login_of_entry(const json_t *entry, struct pull_login *l)
{
	struct err ignored;
	const char *text = json_str(entry, "auth");
	auto_secret struct buf pair = BUF_INIT(LOGIN_MAX);
	if (*json_str(entry, "identitytoken"))
		l->hint = xstrdup("Docker's configuration has an identity token for it, which skep does not use");
	else if (*text && !base64_decode(text, strlen(text), &pair) && !memchr(pair.p ? pair.p : "", 0, pair.n))
		(void)!login_split(l, buf_cstr(&pair), &ignored);
	if (!l->user && !l->hint && *json_str(entry, "username")) {
		l->user = xstrdup(json_str(entry, "username"));
		l->password = xstrdup(json_str(entry, "password"));
	}
}

static void login_of_config(const json_t *config, const char *host, struct pull_login *l)
{
	const json_t *entry = login_member(json_object_get(config, "auths"), host);
	const json_t *helper = login_member(json_object_get(config, "credHelpers"), host);
	const char *name = json_is_string(helper) ? json_string_value(helper) : json_str(config, "credsStore");
	if (entry)
		login_of_entry(entry, l);
	if (!l->user && !l->hint && *name && (entry || helper))
		l->hint = xasprintf("Docker's configuration leaves this registry's login to the program docker-credential-%.40s, which skep does not run: "
				    "use a secret", name);
}

static void login_of_docker(struct engine *g, const char *host, struct pull_login *l)
{
	struct err ignored;
	const char *dir = getenv("DOCKER_CONFIG");
	auto_free char *path = dir && *dir == '/' ? xasprintf("%s/config.json", dir) : xasprintf("%s/.docker/config.json", g->home);
	auto_secret struct buf text = BUF_INIT(DOCKER_CONFIG_MAX);
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fs_read_fd(fd, &text, &ignored))
		return;
	auto_json json_t *config = json_read(buf_cstr(&text), text.n, &ignored);
	if (config)
		login_of_config(config, host, l);
}

int pull_login_find(struct engine *g, const struct pull_wish *w, const struct image_endpoint *at, struct pull_login *out, struct err *e)
{
	struct pull_login l = {0};
	int rc = 0;
	if (w->user) {
		l.user = xstrdup(w->user);
		l.password = xstrdup(w->password ? w->password : "");
	} else if (w->secret) {
		rc = login_of_secret(g, w->secret, at, &l, e);
	} else if (w->docker_logins) {
		login_of_docker(g, at->host, &l);
	}
	if (rc)
		pull_login_done(&l);
	else
		*out = l;
	return rc;
}
