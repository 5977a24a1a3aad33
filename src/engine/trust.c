// SPDX-License-Identifier: Apache-2.0
// Project files, which are hostile until their user agreed to exactly these bytes at exactly this path; and the user's
// and the site's configuration, which are not: an error in one of those stops what would depend on it.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROJECT_NAME ".skep.yaml"

enum { SITE, USER };

// A configuration file as it was when it was last read.
struct cached {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
	struct config config;
};

const char *trust_name(enum trust t)
{
	static const char *const names[] = {"none", "nothing", "untrusted", "changed", "trusted"};
	static_assert(countof(names) == TRUSTS, "a name per state");
	return t < TRUSTS ? names[t] : "?";
}

// --- configuration ---

static void forget(struct cached **at)
{
	if (*at)
		config_done(&(*at)->config);
	free(*at);
	*at = NULL;
}

static int read_config(int fd, const char *path, const struct stat *st, struct cached **at, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(PROJECT_FILE);
	struct cached *c = xcalloc(1, sizeof *c);
	*c = (struct cached){.dev = st->st_dev, .ino = st->st_ino, .size = st->st_size, .changed = st->st_mtim};
	if (!S_ISREG(st->st_mode) || fs_read_fd(fd, &text, e) || config_parse(buf_cstr(&text), text.n, &c->config, e)) {
		free(c);
		return S_ISREG(st->st_mode) ? err_wrap(e, "%s", path) : err_set(e, ERR_INVALID, "%s is not a file", path);
	}
	*at = c;
	return 0;
}

// *out is NULL when there is no such file.
static int config_of(struct engine *g, int which, const struct config **out, struct err *e)
{
	const char *path = which == SITE ? g->site_config : g->user_config;
	struct cached **at = &g->configs[which], *c = *at;
	struct stat st;
	*out = NULL;
	auto_fd int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	if (fd < 0) {
		forget(at);
		return !path || errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "%s", path);
	}
	if (fstat(fd, &st))
		return err_sys(e, "%s", path);
	bool same = c && c->dev == st.st_dev && c->ino == st.st_ino && c->size == st.st_size &&
		    !memcmp(&c->changed, &st.st_mtim, sizeof c->changed);
	if (!same) {
		forget(at);
		if (read_config(fd, path, &st, at, e))
			return -1;
	}
	*out = &(*at)->config;
	return 0;
}

static char *first_of(const char *site, const char *user)
{
	return xstrdup(site ? site : user ? user : "");
}

int config_gate(struct engine *g, struct cell_net *n, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	n->resolver = first_of(site ? site->resolver : NULL, user ? user->resolver : NULL);
	n->ca_file = first_of(site ? site->ca_file : NULL, user ? user->ca_file : NULL);
	return 0;
}

struct limit_at {
	enum limit_key key;
	uint64_t *at;
	uint64_t normal; // what a request has that says nothing
};

static void take_limits(const struct config *site, const struct config *user, const struct limit_at *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum limit_key k = l[i].key;
		if (user && user->limits.set[k] && *l[i].at == l[i].normal)
			*l[i].at = user->limits.value[k];
		bool capped = site && site->limits.set[k] && site->limits.value[k];
		if (capped && (!*l[i].at || *l[i].at > site->limits.value[k]))
			*l[i].at = site->limits.value[k];
	}
}

static uint64_t config_budget(const struct config *site, const struct config *user)
{
	return site && site->has_budget ? site->budget : user && user->has_budget ? user->budget : 0;
}

int budget_read(struct engine *g, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	g->budget = config_budget(site, user);
	return 0;
}

int config_apply(struct engine *g, struct create *c, struct err *e)
{
	const struct config *site, *user;
	const struct limits d = LIMITS_DEFAULT;
	struct limits *l = &c->limits;
	struct limit_at all[] = {
		{LIMIT_CPUS, &l->cpus_milli, d.cpus_milli}, {LIMIT_MEMORY, &l->memory, d.memory}, {LIMIT_DISK, &l->disk, d.disk},
		{LIMIT_PIDS, &l->pids, d.pids},	{LIMIT_FILES, &l->files, d.files}, {LIMIT_NOFILE, &l->nofile, d.nofile},
		{LIMIT_OUTPUT_CAP, &l->output_cap, d.output_cap}, {LIMIT_TIMEOUT, &c->timeout_ms, 0}, {LIMIT_TTL, &c->ttl_ms, 0},
		{LIMIT_IDLE, &c->idle_ms, 0},
	};
	static_assert(countof(all) == LIMIT_KEYS, "a place per limit");
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	take_limits(site, user, all, countof(all));
	g->budget = config_budget(site, user);
	c->strict |= (site && site->has_strict && site->strict) || (user && user->has_strict && user->strict);
	return 0;
}

// --- the project ---

// Never through a link: the file is the repository's, and what it shows is shown to the user.
static int open_project(const char *repo, struct err *e)
{
	auto_fd int dir = open(repo, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? err_sys(e, "%s", repo) : fs_open_beneath(dir, PROJECT_NAME, O_RDONLY | O_NONBLOCK, 0, e);
}

// 1 = it is there and parsed, 0 = there is none, -1 = it can not be used
static int read_project(const char *repo, struct project *out, char sha256[SHA256_HEX], struct err *e)
{
	struct stat st;
	auto_buf struct buf text = BUF_INIT(PROJECT_FILE);
	struct err own;
	auto_fd int fd = open_project(repo, &own);
	if (fd < 0 && (own.sys == ENOENT || own.sys == ENOTDIR))
		return 0;
	if (fd < 0) {
		*e = own;
		return own.sys == ELOOP ? err_set(e, ERR_DENIED, "it is a symbolic link") : -1;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "it is not a file");
	if (fs_read_fd(fd, &text, e))
		return -1;
	sha256_hex(buf_cstr(&text), text.n, sha256);
	return project_parse(buf_cstr(&text), text.n, out, e) ? -1 : 1;
}

static char *project_path(const char *repo)
{
	return xasprintf("%s/%s", repo, PROJECT_NAME);
}

static struct trust_row *find(const struct engine *g, const char *path)
{
	for (size_t i = 0; i < g->n_trusts; i++)
		if (!strcmp(g->trusts[i].path, path))
			return &g->trusts[i];
	return NULL;
}

static enum trust state_of(const struct engine *g, const char *path, const struct project *p, const char *sha256)
{
	const struct trust_row *r = find(g, path);
	if (!project_has_wishes(p))
		return TRUST_NOTHING;
	return !r ? TRUST_NO : strcmp(r->sha256, sha256) ? TRUST_CHANGED : TRUST_YES;
}

static void note(char ***notices, char *owned)
{
	if (notices)
		strv_add(notices, owned);
	free(owned);
}

static bool has_limits(const struct limit_wish *w)
{
	bool any = false;
	for (int k = 0; k < LIMIT_KEYS; k++)
		any |= w->set[k];
	return any;
}

// What this version does not do yet is said, not passed over.
static void note_unused(const struct project *p, const char *path, char ***notices)
{
	auto_buf struct buf b = BUF_INIT(1024);
	const struct {
		const char *name;
		bool set;
	} parts[] = {{"image", p->image}, {"setup", p->setup}, {"env", p->env}, {"ports", p->n_ports}, {"hide", p->hide}, {"test", p->test},
		     {"mounts", p->wishes.mounts}, {"limits", has_limits(&p->limits) || has_limits(&p->wishes.limits)}};
	for (size_t i = 0; i < countof(parts); i++)
		if (parts[i].set)
			buf_fmt(&b, "%s%s", b.n ? ", " : "", parts[i].name);
	if (b.n)
		note(notices, xasprintf("%s: not used by this version of skep: %s", path, buf_cstr(&b)));
}

static int read_layer(struct engine *g, const char *repo, bool setup, struct layers *l, char ***notices)
{
	struct project p = {0};
	struct err e;
	char sha256[SHA256_HEX];
	auto_free char *path = project_path(repo);
	int rc = read_project(repo, &p, sha256, &e);
	if (rc < 0)
		note(notices, xasprintf("%s is ignored: %s", path, e.msg));
	if (rc <= 0)
		return 0;
	enum trust t = state_of(g, path, &p, sha256);
	note_unused(&p, path, notices);
	if (t == TRUST_NO || t == TRUST_CHANGED)
		note(notices, xasprintf("%s asks for more than the default%s and is ignored in that: look at it with `skep trust %s`", path,
					t == TRUST_CHANGED ? ", has changed since you trusted it," : "", repo));
	if (t != TRUST_YES) {
		project_done(&p);
		return 0;
	}
	l->own = xcalloc(1, sizeof *l->own);
	*l->own = p;
	l->project = (struct said){.net = setup ? &l->own->wishes.setup_net : &l->own->wishes.net, .secrets = l->own->wishes.secrets};
	return 0;
}

int layers_read(struct engine *g, const char *repo, const char *phase, struct layers *out, char ***notices, struct err *e)
{
	const struct config *site, *user;
	struct layers l = {0};
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	l.site.net = site ? &site->net : NULL;
	l.user.net = user ? &user->net : NULL;
	if (repo && read_layer(g, repo, phase && !strcmp(phase, "setup"), &l, notices))
		return -1;
	*out = l;
	return 0;
}

void layers_done(struct layers *l)
{
	if (l->own)
		project_done(l->own);
	free(l->own);
	*l = (struct layers){0};
}

// --- agreement ---

static void keep(void *ctx, struct trust_row *taken)
{
	struct engine *g = ctx;
	g->trusts = xrealloc(g->trusts, (g->n_trusts + 1) * sizeof *g->trusts);
	g->trusts[g->n_trusts++] = *taken;
}

static void keep_answer(void *ctx, const char *rule)
{
	strv_add(&((struct engine *)ctx)->answers, rule);
}

int trust_load(struct engine *g, struct err *e)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	g->site_config = xstrdup("/etc/skep/config.yaml");
	g->user_config = xdg && xdg[0] == '/' ? xasprintf("%s/skep/config.yaml", xdg) : xasprintf("%s/.config/skep/config.yaml", g->home);
	return store_trusts(g->store, keep, g, e) || store_answers(g->store, keep_answer, g, e) ? -1 : 0;
}

void trust_free(struct engine *g)
{
	for (size_t i = 0; i < g->n_trusts; i++)
		trust_row_done(&g->trusts[i]);
	free(g->trusts);
	strv_free(g->answers);
	strv_free(g->registries);
	forget(&g->configs[SITE]);
	forget(&g->configs[USER]);
	free(g->site_config);
	free(g->user_config);
}

void trust_view_done(struct trust_view *v)
{
	free(v->path);
	if (v->project)
		project_done(v->project);
	free(v->project);
	*v = (struct trust_view){0};
}

static int look(struct engine *g, const char *repo, struct trust_view *out, struct err *e)
{
	struct project p = {0};
	struct trust_view v = {.path = project_path(repo)};
	int rc = read_project(repo, &p, v.sha256, e);
	if (rc < 0) {
		err_wrap(e, "%s", v.path);
		trust_view_done(&v);
		return -1;
	}
	if (rc) {
		v.state = state_of(g, v.path, &p, v.sha256);
		v.project = xcalloc(1, sizeof *v.project);
		*v.project = p;
	}
	*out = v;
	return 0;
}

int engine_trust_look(struct engine *g, const char *dir, struct trust_view *out, struct err *e)
{
	struct source src = {0};
	if (source_resolve(&g->rules, dir, NULL, &src, e))
		return -1;
	int rc = look(g, src.base, out, e);
	free(src.base);
	return rc;
}

static int agree(struct engine *g, const struct trust_view *v, const char *sha256, struct err *e)
{
	struct trust_row r = {.path = v->path, .at = clock_unix_ms()}, *old = find(g, v->path);
	if (v->state == TRUST_NONE)
		return err_set(e, ERR_NOT_FOUND, "there is no %s", v->path);
	if (strcmp(v->sha256, sha256))
		return err_set(e, ERR_CONFLICT, "%s is not what was looked at any more: look again", v->path);
	memcpy(r.sha256, v->sha256, sizeof r.sha256);
	if (store_trust_set(g->store, &r, e) || store_flush(g->store, e))
		return -1;
	r.path = xstrdup(v->path);
	if (old) {
		trust_row_done(old);
		*old = r;
	} else {
		keep(g, &r);
	}
	return 0;
}

static int take_back(struct engine *g, const char *path, struct err *e)
{
	struct trust_row *r = find(g, path);
	if (!r)
		return err_set(e, ERR_NOT_FOUND, "%s is not trusted", path);
	if (store_trust_drop(g->store, path, e) || store_flush(g->store, e))
		return -1;
	trust_row_done(r);
	*r = g->trusts[--g->n_trusts];
	return 0;
}

static bool is_on(const struct box *b, const void *repo)
{
	return b->row.repo && !strcmp(b->row.repo, repo);
}

void engine_trust(struct engine *g, const char *dir, const char *sha256, struct done d)
{
	struct source src = {0};
	struct trust_view v = {0};
	struct err e;
	int rc = source_resolve(&g->rules, dir, NULL, &src, &e);
	if (!rc && sha256)
		rc = look(g, src.base, &v, &e) || agree(g, &v, sha256, &e);
	auto_free char *path = rc ? NULL : project_path(src.base);
	if (!rc && !sha256)
		rc = take_back(g, path, &e);
	engine_wrote(g);
	trust_view_done(&v);
	for (struct box *b = g->boxes; b && !rc; b = b->next)
		if (is_on(b, src.base))
			record(b, "policy.changed", sha256 ? "\"project\":\"trusted\"" : "\"project\":\"untrusted\"");
	if (rc)
		task_refuse(d, &e);
	else
		net_push(g, is_on, src.base, d);
	free(src.base);
}

void engine_trusted(struct engine *g, void (*each)(void *ctx, const struct trust_row *r), void *ctx)
{
	for (size_t i = 0; i < g->n_trusts; i++)
		each(ctx, &g->trusts[i]);
}
