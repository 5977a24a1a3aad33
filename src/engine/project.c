// SPDX-License-Identifier: Apache-2.0
// The file of a project, and what a new sandbox takes from it. All of it is the repository's: it works inside the
// boundary, and what would reach further counts only when its user has agreed to exactly these bytes (trust.c).
#include "engine/net_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/devcontainer.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROJECT_NAME ".skep.yaml"
#define DEVCONTAINERS_MAX 256 // entries of .devcontainer/ looked at

static_assert(PROJECT_PORTS_KEPT == PROJECT_PORTS, "all ports are kept");

// --- reading ---

char *project_path(const char *repo)
{
	return xasprintf("%s/%s", repo, PROJECT_NAME);
}

void project_file_done(struct project_file *f)
{
	free(f->path);
	project_done(&f->project);
	*f = (struct project_file){0};
}

// Where the project is seen inside: as a rule, and as the caller wants it (NULL = has not said).
struct seen {
	const char *usual, *asked;
};

static bool is_absent(const struct err *e)
{
	return e->sys == ENOENT || e->sys == ENOTDIR;
}

// Never through a link: the file is the repository's, and what it shows is shown to the user. 1 = read, 0 = there is none.
static int read_file(int dir, const char *name, struct buf *text, struct err *e)
{
	struct stat st;
	auto_fd int fd = fs_open_beneath(dir, name, O_RDONLY | O_NONBLOCK, 0, e);
	if (fd < 0 && is_absent(e))
		return 0;
	if (fd < 0)
		return e->sys == ELOOP ? err_set(e, ERR_DENIED, "it is a symbolic link") : -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "it is not a file");
	return fs_read_fd(fd, text, e) ? -1 : 1;
}

// .devcontainer/NAME/devcontainer.json: its path when there is exactly one.
static char *only_devcontainer(int dir)
{
	struct err e;
	int fd = fs_open_beneath(dir, ".devcontainer", O_RDONLY | O_DIRECTORY, 0, &e);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	char *found = NULL;
	int n = 0, looked = 0;
	while (d && looked++ < DEVCONTAINERS_MAX && (ent = readdir(d))) {
		auto_free char *path = xasprintf(".devcontainer/%s/devcontainer.json", ent->d_name);
		auto_fd int file = ent->d_name[0] == '.' ? -1 : fs_open_beneath(dir, path, O_PATH, 0, &e);
		if (file < 0)
			continue;
		free(found);
		found = ++n == 1 ? take(&path) : NULL;
	}
	if (d)
		closedir(d);
	return found;
}

static int read_devcontainer(int dir, const char *repo, const struct seen *at, struct project_file *f, struct err *e)
{
	static const char *const names[] = {".devcontainer/devcontainer.json", ".devcontainer.json"};
	auto_free char *only = NULL;
	int rc = 0;
	for (size_t i = 0; i <= countof(names) && !rc; i++) {
		auto_buf struct buf text = BUF_INIT(PROJECT_FILE);
		const char *name = i < countof(names) ? names[i] : (only = only_devcontainer(dir));
		rc = name ? read_file(dir, name, &text, e) : 0;
		if (!rc)
			continue;
		free(f->path);
		f->path = xasprintf("%s/%s", repo, name);
		if (rc > 0) {
			sha256_hex(buf_cstr(&text), text.n, f->sha256);
			rc = devcontainer_parse(buf_cstr(&text), text.n, at->usual, at->asked, &f->project, e) ? -1 : 1;
		}
		f->project.from_devcontainer = true; // also when it can not be used
	}
	return rc;
}

static int read_any(const char *repo, const struct seen *at, struct project_file *out, struct err *e)
{
	struct project_file f = {.path = project_path(repo)};
	auto_buf struct buf text = BUF_INIT(PROJECT_FILE);
	auto_fd int dir = open(repo, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = dir >= 0 ? read_file(dir, PROJECT_NAME, &text, e) : errno == ENOENT ? 0 : err_sys(e, "%s", repo);
	if (rc > 0) {
		sha256_hex(buf_cstr(&text), text.n, f.sha256);
		rc = project_parse(buf_cstr(&text), text.n, &f.project, e) ? -1 : 1;
	} else if (!rc && dir >= 0 && at) {
		rc = read_devcontainer(dir, repo, at, &f, e);
	}
	*out = f;
	return rc;
}

int project_read(const char *repo, struct project_file *out, struct err *e)
{
	return read_any(repo, &(struct seen){.usual = repo}, out, e);
}

int project_read_own(const char *repo, struct project_file *out, struct err *e)
{
	return read_any(repo, NULL, out, e);
}

// --- applying ---

struct applying {
	struct engine *g;
	struct create *c;
	struct sandbox *row;
	const char *dir;
	struct project_file f;
	bool trusted;
	char ***notices;
};

static void note(const struct applying *a, char *owned)
{
	strv_add(a->notices, owned);
	free(owned);
}

struct by_source {
	const char *source;
	char id[ID_SIZE];
};

static void match_source(void *ctx, const struct image_row *i)
{
	struct by_source *s = ctx;
	if (!s->id[0] && i->source && !strcmp(i->source, s->source))
		memcpy(s->id, i->id, sizeof s->id);
}

// By name or id, or by what it was imported from. "" = there is none.
static int find_image(const struct applying *a, const char *name, char id[ID_SIZE], struct err *e)
{
	struct image_row i;
	struct by_source s = {.source = name};
	if (!engine_image_get(a->g, name, &i, e)) {
		memcpy(id, i.id, ID_SIZE);
		image_row_done(&i);
		return 0;
	}
	if (e->kind != ERR_NOT_FOUND || engine_images(a->g, match_source, &s, e))
		return -1;
	memcpy(id, s.id, ID_SIZE);
	return 0;
}

static int take_image(const struct applying *a, struct err *e)
{
	const struct project *p = &a->f.project;
	char id[ID_SIZE] = "";
	if (a->c->image || !p->image || !strcmp(p->image, "host"))
		return 0;
	if (find_image(a, p->image, id, e))
		return err_wrap(e, "%s", a->f.path);
	if (id[0])
		a->c->image = xstrdup(id);
	else if (p->from_devcontainer)
		note(a, xasprintf("%s: image %.200s is not here: this machine's own system is used. `skep image pull %.200s` fetches it", a->f.path,
				  p->image, p->image));
	else
		return err_set(e, ERR_NOT_FOUND, "%s names the image %.200s, which is not here: `skep image pull %.200s` or `skep image import`, or "
			       "--image host for this machine's own system", a->f.path, p->image, p->image);
	return 0;
}

// The later of two that say the same counts: the caller's.
static void take_env(const struct applying *a)
{
	char **env = a->f.project.env ? strv_copy(a->f.project.env) : NULL;
	for (char **v = a->trusted ? a->f.project.wishes.env : NULL; v && *v; v++)
		strv_add(&env, *v);
	a->row->project.env = env ? strv_copy(env) : NULL;
	for (char **v = a->c->env; v && *v; v++)
		strv_add(&env, *v);
	strv_free(a->c->env);
	a->c->env = env;
}

// DIR[:PATH][:ro|:rw], as on the command line.
static int read_mount(const struct applying *a, const char *text, struct cell_mount *m, struct err *e)
{
	auto_free char *s = text[0] == '~' && (text[1] == '/' || !text[1]) ? xasprintf("%s%s", a->g->home, text + 1) : xstrdup(text);
	bool writable = str_has_suffix(s, ":rw");
	if (writable || str_has_suffix(s, ":ro"))
		s[strlen(s) - 3] = 0;
	char *dst = strchr(s, ':');
	if (dst)
		*dst++ = 0;
	if (s[0] != '/' || (dst && *dst != '/'))
		return err_set(e, ERR_INVALID, "%s: mount %.200s is not DIR[:PATH][:ro|:rw] with absolute paths", a->f.path, text);
	*m = (struct cell_mount){.src = xstrdup(s), .dst = xstrdup(dst ? dst : s), .writable = writable};
	return 0;
}

// Before those of the caller, which cover them where they meet.
static int take_mounts(const struct applying *a, struct err *e)
{
	char *const *wanted = a->trusted ? a->f.project.wishes.mounts : NULL;
	size_t n = strv_len(wanted);
	struct create *c = a->c;
	if (!n)
		return 0;
	struct cell_mount *all = xcalloc(n + c->n_mounts, sizeof *all);
	uint32_t k = 0;
	int rc = 0;
	for (; wanted[k] && !rc; k += !rc)
		rc = read_mount(a, wanted[k], &all[k], e);
	for (uint32_t i = 0; i < c->n_mounts; i++)
		all[k + i] = c->mounts[i];
	free(c->mounts);
	c->mounts = all;
	c->n_mounts += k;
	return rc;
}

// The file may say where, but not over what the cell itself is made of.
static bool is_free_place(const char *path)
{
	static const char *const taken[] = {"/usr", "/bin",  "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec", "/etc", "/opt", "/nix", "/gnu",
					    "/var", "/proc", "/sys",  "/dev", "/run",	"/boot",  "/root",   "/.skep",	 "/home/skep", "/tmp"};
	if (!path_is_clean(path) || !path[1])
		return false;
	for (size_t i = 0; i < countof(taken); i++)
		if (path_is_below(path, taken[i]) || path_is_below(taken[i], path))
			return false;
	return true;
}

static void take_place(const struct applying *a, const char *asked)
{
	const char *place = a->f.project.ws_path;
	if (!place || asked)
		return;
	if (!is_free_place(place)) {
		note(a, xasprintf("%s: workspaceFolder %.200s can not be used inside: the project is seen at %s", a->f.path, place, a->row->ws_path));
		return;
	}
	free(a->row->ws_path);
	a->row->ws_path = xstrdup(place);
}

static void keep_rest(struct applying *a)
{
	struct project *p = &a->f.project;
	struct project_row *r = &a->row->project;
	r->file = xstrdup(a->row->url ? a->f.path + strlen(a->dir) + 1 : a->f.path);
	r->hide = take(&p->hide);
	r->setup = take(&p->setup);
	r->setup_files = take(&p->setup_files);
	r->test = take(&p->test);
	r->n_ports = p->n_ports;
	memcpy(r->ports, p->ports, sizeof r->ports);
	for (char **v = p->left_out; v && *v; v++)
		note(a, xasprintf("%s: %s", a->f.path, *v));
}

static int apply(struct applying *a, const char *asked, struct err *e)
{
	a->trusted = project_is_trusted(a->g, &a->f);
	if (a->row->url && project_has_wishes(&a->f.project))
		note(a, xasprintf("%s asks for more than the default and is ignored in that: only the file of a directory can be trusted",
				  strrchr(a->f.path, '/') + 1));
	take_place(a, asked);
	if (config_apply(a->g, a->c, &a->f.project, a->trusted, e) || take_image(a, e) || take_mounts(a, e))
		return -1;
	take_env(a);
	keep_rest(a);
	return 0;
}

// A .skep.yaml that can not be read stops the create: it may hide what nobody should see. Another tool's file does not.
static int unusable(const struct applying *a, struct err *e)
{
	struct err why = *e;
	if (!a->f.project.from_devcontainer)
		return err_set(e, why.kind, "%s: %s. Correct it, or leave it aside with --no-project", a->f.path, why.msg);
	note(a, xasprintf("%s is ignored: %s", a->f.path, why.msg));
	return 0;
}

int project_apply(struct engine *g, struct create *c, const char *dir, struct sandbox *row, char ***notices, struct err *e)
{
	struct applying a = {.g = g, .c = c, .row = row, .dir = dir, .notices = notices};
	const char *usual = row->url ? "/workspace" : row->repo, *asked = usual && strcmp(usual, row->ws_path) ? row->ws_path : NULL;
	row->project.off = c->no_project;
	int rc = dir && !c->no_project ? read_any(dir, &(struct seen){usual, asked}, &a.f, e) : 0;
	if (rc > 0)
		rc = apply(&a, asked, e);
	else
		rc = (rc < 0 && unusable(&a, e)) || config_apply(g, c, NULL, false, e) ? -1 : 0;
	project_file_done(&a.f);
	return rc;
}
