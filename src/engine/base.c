// SPDX-License-Identifier: Apache-2.0
// What a new sandbox stands on. A live directory costs a few stat calls when its git state is known; its private .git is a
// layer that hides the host's. A URL is fetched into repos/, checked out once per commit into trees/, and every sandbox on
// that commit shares it. All of it is made by skep-repo; here it is only asked for.
#include "engine/base_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "engine/child.h"
#include "workspace/gitstate.h"
#include <stdlib.h>
#include <string.h>

#define OBJECTS_INSIDE "/.objects" // not below what each cell mounts for itself
#define FRESH_MS 60000 // a repository asked about so short ago is not asked again
#define KEY_CHARS 32   // of a hash, in the name of a directory: as skep-repo names mirrors of submodules

struct known_state {
	char *base;
	struct gitstate state;
	struct known_state *next;
};

typedef void (*prepared)(struct task *t, const struct err *e);

static void end(struct task *t, const struct err *e)
{
	prepared then = t->prepared;
	t->prepared = NULL;
	then(t, e);
}

// The lower comes below whatever the sandbox has of its own. info: mounts of objects, and what was left out.
static void stand_on(struct box *b, const char *lower, char *const *info)
{
	strv_add(&b->row.lowers, lower);
	b->row.n_base++;
	for (; info && *info; info++)
		if (**info == MADE_LEFT_OUT)
			strv_add(&b->create_notices, *info + 1);
		else
			strv_add(&b->row.objects, *info);
}

// Owned. Only places that were allowed are borrowed from, whatever the repository names.
static char **repo_argv(const char *verb, const char *dir, char *const *alternates)
{
	const char *words[] = {"skep-repo", verb, "--dir", dir, "--into", "{}", "--objects", OBJECTS_INSIDE};
	char **v = NULL;
	for (size_t i = 0; i < countof(words); i++)
		strv_add(&v, words[i]);
	for (; alternates && *alternates; alternates++) {
		strv_add(&v, "--alternates");
		strv_add(&v, *alternates);
	}
	return v;
}

// --- a directory ---

static const struct gitstate *state_of(struct engine *g, const char *base, struct err *e)
{
	struct known_state *k = g->gitstates;
	while (k && strcmp(k->base, base))
		k = k->next;
	if (k && gitstate_same(&k->state))
		return &k->state;
	if (!k) {
		k = xcalloc(1, sizeof *k);
		k->base = xstrdup(base);
		k->next = g->gitstates;
		g->gitstates = k;
	}
	gitstate_done(&k->state);
	k->state = (struct gitstate){0};
	return gitstate_read(base, &k->state, e) ? NULL : &k->state;
}

static void on_gitlayer(struct task *t, const struct err *e, struct derived *d)
{
	if (!e)
		stand_on(t->box, d->row.path, d->row.info);
	end(t, e);
}

static void prepare_directory(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	const struct gitstate *s = state_of(b->g, b->row.repo, &e);
	if (s && *s->why)
		strv_add(&b->create_notices, s->why); // and it is hidden
	if (!s || !*s->key) {
		end(t, s ? NULL : &e);
		return;
	}
	// who was allowed more sees another one
	char **argv = repo_argv("gitlayer", b->row.repo, t->alternates);
	auto_buf struct buf key = BUF_INIT(1u << 20);
	buf_str(&key, s->key);
	for (char **a = t->alternates; a && *a; a++)
		buf_fmt(&key, "\n%s", *a);
	made_get(t, &(struct made_want){.kind = DERIVED_GIT, .key = buf_cstr(&key), .letter = 'g', .argv = argv, .member = "mounts"}, on_gitlayer);
	strv_free(argv);
}

static void on_tree(struct task *t, const struct err *e, struct derived *d)
{
	struct box *b = t->box;
	if (!e) {
		auto_free char *git = xasprintf("%s/git", d->row.path);
		if (fs_exists(b->g->home_fd, git))
			stand_on(b, git, d->row.info);
		b->row.tree = xasprintf("%s/files", d->row.path);
		b->row.base_pin = PIN_PINNED;
	}
	end(t, e);
}

// A copy that stays what it is, whatever happens to the directory. Nobody else can use it.
static void prepare_copy(struct task *t)
{
	struct box *b = t->box;
	char **argv = repo_argv("copy", b->row.repo, t->alternates);
	made_get(t, &(struct made_want){.kind = DERIVED_TREE, .key = b->row.id, .letter = 't', .argv = argv, .member = "mounts"}, on_tree);
	strv_free(argv);
}

// --- a URL ---

static void url_key(const char *url, char out[KEY_CHARS + 1])
{
	char hex[SHA256_HEX];
	sha256_hex(url, strlen(url), hex);
	memcpy(out, hex, KEY_CHARS);
	out[KEY_CHARS] = 0;
}

static char url_arg[] = "@SKEP_URL"; // it may hold a password, and everybody can read arguments

static char **git_env(const struct task *t)
{
	char **env = NULL;
	auto_free char *url = xasprintf("%s=%s", url_arg + 1, t->url ? t->url : t->box->row.url);
	strv_add(&env, url);
	auto_free char *home = xasprintf("HOME=%s", t->box->g->home);
	strv_add(&env, home);
	for (char **v = t->git_env; v && *v; v++)
		strv_add(&env, *v);
	return env;
}

static void checkout(struct task *t, const char *repo, const char *commit)
{
	struct box *b = t->box;
	free(b->row.head);
	b->row.head = xstrdup(commit);
	auto_free char *dir = xasprintf("%s/%s", b->g->skep_home, repo);
	auto_free char *key = b->row.ref ? xasprintf("%s %s %s", repo, commit, b->row.ref) : xasprintf("%s %s", repo, commit);
	auto_free char *repos = xasprintf("%s/repos", b->g->skep_home), *c = xstrdup(commit);
	char a0[] = "skep-repo", a1[] = "checkout", a2[] = "--repo", a4[] = "--commit", a6[] = "--into", a7[] = "{}", a8[] = "--repos",
	     a10[] = "--url", a12[] = "--objects", a13[] = OBJECTS_INSIDE, a14[] = "--ref";
	char *argv[] = {a0, a1, a2, dir, a4, c, a6, a7, a8, repos, a10, url_arg, a12, a13, b->row.ref ? a14 : NULL, b->row.ref, NULL};
	char **env = git_env(t);
	made_get(t, &(struct made_want){.kind = DERIVED_TREE, .key = key, .letter = 't', .argv = argv, .env = env, .member = "mounts"}, on_tree);
	strv_free(env);
}

// "REF\tCOMMIT\tTIME" of what was asked before.
static bool answered_before(const struct derived *d, const char *ref, uint64_t *out_at, char **out_commit)
{
	for (char **l = d ? d->row.info : NULL; l && *l; l++) {
		struct str rest = str_of(*l), name, commit, time;
		if (str_next(&rest, '\t', &name) && str_next(&rest, '\t', &commit) && str_next(&rest, '\t', &time) && str_is(name, ref) &&
		    !str_to_u64(time, 0, UINT64_MAX, out_at)) {
			*out_commit = xstrndup(commit.p, commit.n);
			return true;
		}
	}
	return false;
}

static void note_answer(struct engine *g, const char *key, const char *repo, const char *ref, const json_t *answer)
{
	struct err e;
	struct derived *d = derived_find(g, DERIVED_REPO, key);
	struct derived_row row = {.kind = DERIVED_REPO, .key = xstrdup(key), .path = xstrdup(repo), .info = xcalloc(1, sizeof(char *))};
	if (!d && !(d = derived_add(g, &row, &e))) {
		log_line(LOG_ERROR, "%s", e.msg);
		return;
	}
	derived_row_done(&row);
	char **info = NULL;
	auto_free char *line = xasprintf("%s\t%s\t%llu", ref, json_str(answer, "commit"), (unsigned long long)clock_unix_ms());
	strv_add(&info, line);
	size_t n = strlen(ref);
	for (char **l = d->row.info; *l; l++)
		if (strncmp(*l, ref, n) || (*l)[n] != '\t')
			strv_add(&info, *l);
	strv_free(d->row.info);
	d->row.info = info;
	d->row.bytes = json_u64(answer, "bytes");
	if (store_derived_set(g->store, &d->row, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	engine_wrote(g);
}

struct fetch {
	struct engine *g;
	char key[KEY_CHARS + 1];
	char *repo, *ref;
	struct fetch_wait {
		struct task *t;
		struct fetch_wait *next;
	} *waits;
	struct fetch *next;
};

static void fetch_free(struct fetch *f)
{
	while (f->waits) {
		struct fetch_wait *w = f->waits;
		f->waits = w->next;
		free(w);
	}
	free(f->repo);
	free(f->ref);
	free(f);
}

// Without the net the last known state is better than nothing, and is said to be that.
static void fall_back(struct fetch *f, struct task *t, const struct err *e)
{
	uint64_t at = 0;
	char when[32];
	auto_free char *commit = NULL;
	struct derived *d = e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT ? derived_find(f->g, DERIVED_REPO, f->key) : NULL;
	if (!answered_before(d, f->ref, &at, &commit)) {
		end(t, e);
		return;
	}
	clock_iso(at, when);
	auto_free char *line = xasprintf("%s could not be asked for news (%s): this is %.12s, as of %s", t->box->row.url, e->msg, commit, when);
	strv_add(&t->box->create_notices, line);
	checkout(t, f->repo, commit);
}

static void on_fetched(void *ctx, const struct child_end *end_of)
{
	struct fetch *f = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end_of, "skep-repo", &e);
	const char *commit = answer ? json_str(answer, "commit") : "";
	if (answer && strspn(commit, "0123456789abcdef") < 40) {
		err_set(&e, ERR_BUG, "skep-repo named no commit");
		commit = "";
	}
	list_unlink(&f->g->fetches, f, next);
	if (*commit)
		note_answer(f->g, f->key, f->repo, f->ref, answer);
	for (struct fetch_wait *w = f->waits; w; w = w->next)
		if (*commit)
			checkout(w->t, f->repo, commit);
		else
			fall_back(f, w->t, &e);
	fetch_free(f);
}

static void fetch_join(struct fetch *f, struct task *t)
{
	struct fetch_wait *w = xcalloc(1, sizeof *w);
	*w = (struct fetch_wait){t, f->waits};
	f->waits = w;
}

static int fetch_spawn(struct fetch *f, struct task *t, struct err *e)
{
	auto_free char *dir = xasprintf("%s/%s", f->g->skep_home, f->repo);
	char a0[] = "skep-repo", a1[] = "fetch", a2[] = "--url", a4[] = "--into", a6[] = "--ref";
	char *argv[] = {a0, a1, a2, url_arg, a4, dir, *f->ref ? a6 : NULL, f->ref, NULL}, **env = git_env(t);
	struct child_spec spec = {.program = "skep-repo", .argv = argv, .env = env, .out_max = 1 << 20};
	struct child *c = child_start(f->g, &spec, on_fetched, f, e);
	strv_free(env);
	return c ? 0 : -1;
}

static void prepare_url(struct task *t)
{
	struct engine *g = t->box->g;
	struct err e;
	char key[KEY_CHARS + 1];
	uint64_t at = 0;
	auto_free char *commit = NULL;
	const char *ref = t->box->row.ref ? t->box->row.ref : "";
	url_key(t->box->row.url, key);
	auto_free char *repo = xasprintf("repos/%s.git", key);
	struct derived *d = derived_find(g, DERIVED_REPO, key);
	if (answered_before(d, ref, &at, &commit) && at + FRESH_MS > clock_unix_ms()) {
		checkout(t, repo, commit);
		return;
	}
	for (struct fetch *f = g->fetches; f; f = f->next)
		if (!strcmp(f->key, key) && !strcmp(f->ref, ref)) {
			fetch_join(f, t);
			return;
		}
	struct fetch *f = xcalloc(1, sizeof *f);
	f->g = g;
	memcpy(f->key, key, sizeof f->key);
	f->repo = take(&repo);
	f->ref = xstrdup(ref);
	if (fetch_spawn(f, t, &e)) {
		fetch_free(f);
		end(t, &e);
		return;
	}
	fetch_join(f, t);
	f->next = g->fetches;
	g->fetches = f;
}

void base_prepare(struct task *t, prepared then)
{
	t->prepared = then;
	if (t->box->row.origin || (!t->box->row.repo && !t->box->row.url))
		end(t, NULL); // a snapshot brings its base with it
	else if (t->box->row.url)
		prepare_url(t);
	else if (t->pin)
		prepare_copy(t);
	else
		prepare_directory(t);
}

void base_free(struct engine *g)
{
	while (g->gitstates) {
		struct known_state *k = g->gitstates;
		g->gitstates = k->next;
		gitstate_done(&k->state);
		free(k->base);
		free(k);
	}
	while (g->fetches) {
		struct fetch *f = g->fetches;
		g->fetches = f->next;
		fetch_free(f);
	}
}
