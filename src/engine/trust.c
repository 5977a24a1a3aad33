// SPDX-License-Identifier: Apache-2.0
// Project files, which are hostile until their user agreed to exactly these bytes at exactly this path; and the user's
// and the site's configuration, which are not: an error in one of those stops what would depend on it.
#include "engine/net_int.h"
#include "engine/review_int.h"

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
	if (g->creating && g->configs_known[which]) {
		*out = c ? &c->config : NULL;
		return 0;
	}
	*out = NULL;
	auto_fd int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	if (fd < 0) {
		forget(at);
		if (path && errno != ENOENT && errno != ENOTDIR)
			return err_sys(e, "%s", path);
		g->configs_known[which] = true;
		return 0;
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
	g->configs_known[which] = true;
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

int config_images(struct engine *g, char *const **mirrors, char *const **insecure, const char **ca_file, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	const struct config *both[] = {user, site};
	*mirrors = *insecure = NULL;
	*ca_file = NULL;
	for (size_t i = 0; i < countof(both); i++) {
		const struct config *c = both[i];
		if (c && c->image_mirrors)
			*mirrors = c->image_mirrors;
		if (c && c->image_insecure)
			*insecure = c->image_insecure;
		if (c && c->ca_file)
			*ca_file = c->ca_file;
	}
	return 0;
}

int config_caches(struct engine *g, bool *on, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	*on = !(site && site->no_caches) && !(user && user->no_caches);
	return 0;
}

int config_git_user(struct engine *g, bool *on, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	*on = !(site && site->no_git_user) && !(user && user->no_git_user);
	return 0;
}

struct limit_at {
	enum limit_key key;
	uint64_t *at;
	uint64_t normal; // what a request has that says nothing
};

// What the project says of a limit: below the default it may, above only with trust, and without trust never above what its
// user has set for every sandbox. False = nothing.
static bool project_limit(const struct config *user, const struct project *p, bool trusted, enum limit_key k, uint64_t *out)
{
	const struct limit_wish *w = !p ? NULL : p->limits.set[k] ? &p->limits : trusted && p->wishes.limits.set[k] ? &p->wishes.limits : NULL;
	if (!w)
		return false;
	uint64_t v = w->value[k], cap = user && user->limits.set[k] && !trusted ? user->limits.value[k] : 0;
	*out = cap && (!v || v > cap) ? cap : v;
	return true;
}

static void take_limits(const struct config *site, const struct config *user, const struct project *p, bool trusted,
			const struct limit_at *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum limit_key k = l[i].key;
		uint64_t v;
		if (*l[i].at == l[i].normal && project_limit(user, p, trusted, k, &v))
			*l[i].at = v;
		else if (user && user->limits.set[k] && *l[i].at == l[i].normal)
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

// The site's word counts where both say something.
int config_review(struct engine *g, struct review_limits *out, struct err *e)
{
	const struct config *files[2] = {NULL, NULL};
	*out = (struct review_limits){LIMIT_REVIEW_BYTES, LIMIT_REVIEW_SECONDS, LIMIT_REVIEW_FREE};
	if (config_of(g, SITE, &files[1], e) || config_of(g, USER, &files[0], e))
		return -1;
	for (size_t i = 0; i < countof(files); i++) {
		if (files[i] && files[i]->review_bytes)
			out->bytes = files[i]->review_bytes;
		if (files[i] && files[i]->review_seconds)
			out->seconds = files[i]->review_seconds;
		if (files[i] && files[i]->review_free)
			out->free = files[i]->review_free;
	}
	return 0;
}

int config_apply(struct engine *g, struct create *c, const struct project *p, bool trusted, struct err *e)
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
	take_limits(site, user, p, trusted, all, countof(all));
	g->budget = config_budget(site, user);
	c->strict |= (site && site->has_strict && site->strict) || (user && user->has_strict && user->strict);
	return 0;
}

// --- the project ---

static struct trust_row *find(const struct engine *g, const char *path)
{
	for (size_t i = 0; i < g->n_trusts; i++)
		if (!strcmp(g->trusts[i].path, path))
			return &g->trusts[i];
	return NULL;
}

static enum trust state_of(const struct engine *g, const struct project_file *f)
{
	const struct trust_row *r = find(g, f->path);
	if (!project_has_wishes(&f->project))
		return TRUST_NOTHING;
	return !r ? TRUST_NO : strcmp(r->sha256, f->sha256) ? TRUST_CHANGED : TRUST_YES;
}

bool project_is_trusted(const struct engine *g, const struct project_file *f)
{
	return state_of(g, f) == TRUST_YES;
}

// What of it does not count, by name: "net, secrets, limits memory".
static void list_wishes(const struct project_wishes *w, struct buf *b)
{
	const struct {
		const char *name;
		bool set;
	} parts[] = {{"net", net_part_says(&w->net) || net_part_says(&w->setup_net)}, {"secrets", w->secrets}, {"mounts", w->mounts}};
	for (size_t i = 0; i < countof(parts); i++)
		if (parts[i].set)
			buf_fmt(b, "%s%s", b->n ? ", " : "", parts[i].name);
	for (char **v = w->env; v && *v; v++)
		buf_fmt(b, "%senv %.*s", b->n ? ", " : "", (int)strcspn(*v, "="), *v);
	for (int k = 0; k < LIMIT_KEYS; k++)
		if (w->limits.set[k])
			buf_fmt(b, "%slimits %s", b->n ? ", " : "", limit_key_name(k));
}

static void note_untrusted(const struct project_file *f, enum trust t, const char *repo, char ***notices)
{
	auto_buf struct buf b = BUF_INIT(1024);
	if (!notices || (t != TRUST_NO && t != TRUST_CHANGED))
		return;
	list_wishes(&f->project.wishes, &b);
	auto_free char *line = xasprintf("%s asks for more than the default (%s)%s and is ignored in that: look at it with `skep trust %s`", f->path,
					 buf_cstr(&b), t == TRUST_CHANGED ? ", has changed since you trusted it," : "", repo);
	strv_add(notices, line);
}

static void read_layer(struct engine *g, const char *repo, bool setup, struct layers *l, char ***notices)
{
	struct project_file f = {0};
	struct err e;
	int rc = project_read_own(repo, &f, &e);
	if (rc < 0 && notices) {
		auto_free char *line = xasprintf("%s is ignored: %s", f.path, e.msg);
		strv_add(notices, line);
	}
	enum trust t = rc > 0 ? state_of(g, &f) : TRUST_NONE;
	note_untrusted(&f, t, repo, notices);
	if (t == TRUST_YES) {
		l->own = xcalloc(1, sizeof *l->own);
		*l->own = f.project;
		f.project = (struct project){0};
		l->project = (struct said){.net = setup ? &l->own->wishes.setup_net : &l->own->wishes.net, .secrets = l->own->wishes.secrets};
	}
	project_file_done(&f);
}

int layers_read(struct engine *g, const char *repo, const char *phase, struct layers *out, char ***notices, struct err *e)
{
	const struct config *site, *user;
	struct layers l = {0};
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	l.site.net = site ? &site->net : NULL;
	l.user.net = user ? &user->net : NULL;
	if (repo)
		read_layer(g, repo, phase && !strcmp(phase, "setup"), &l, notices);
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

int engine_listen_config(struct engine *g, char *const **out, char *const **out_urls, struct err *e)
{
	const struct config *site, *user;
	if (config_of(g, SITE, &site, e) || config_of(g, USER, &user, e))
		return -1;
	const struct config *from = site && site->listen ? site : user; // the site wins, as everywhere
	*out = from ? from->listen : NULL;
	*out_urls = from ? from->public_urls : NULL;
	return 0;
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
	struct project_file f = {0};
	int rc = project_read(repo, &f, e);
	struct trust_view v = {.path = take(&f.path)};
	if (rc < 0)
		err_wrap(e, "%s", v.path);
	if (rc > 0) {
		f.path = v.path; // lent
		v.state = state_of(g, &f);
		f.path = NULL;
		memcpy(v.sha256, f.sha256, sizeof v.sha256);
		v.project = xcalloc(1, sizeof *v.project);
		*v.project = f.project;
		f.project = (struct project){0};
	}
	project_file_done(&f);
	if (rc < 0)
		trust_view_done(&v);
	else
		*out = v;
	return rc < 0 ? -1 : 0;
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
