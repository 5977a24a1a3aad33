// SPDX-License-Identifier: Apache-2.0
#include "init/gitwork.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/gitindex.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ID_MAX 64 // hex digits
#define NAMES_MAX 100000u // of one directory
#define DEPTH_MAX 24
#define PACKED_MAX (64u << 20)
#define LOG_MAX (8u << 20)
#define PACKS_MAX 200 // files that are open at once
#define BORROWED_MAX 32 // places a base borrows objects from
#define REFS_MAX 1000000u

struct ref {
	char *name, id[ID_MAX + 1];
};

struct refs {
	struct ref *v;
	size_t n;
};

// Directories of objects, with their packs.
struct store {
	struct stack_dir dir[BORROWED_MAX];
	int n;
	int packs[PACKS_MAX], n_packs;
};

// One git directory.
struct work {
	const struct stack *stack;
	const char *path;
	struct stack_dir up, low;
	bool has_low;
	struct refs low_packed, now; // now: refs that lie in the upper layers
	bool low_packed_read, stores_open;
	struct store mine, theirs;
	char **told; // commits
	gitwork_fn *fn;
	gitwork_told_fn *is_told;
	void *ctx;
};

static void say(struct work *w, const char *what)
{
	size_t n = strlen(w->path);
	if (!strcmp(w->path, ".git")) {
		w->fn(w->ctx, what);
		return;
	}
	if (str_has_suffix(w->path, "/.git"))
		n -= strlen("/.git");
	auto_free char *line = xasprintf("%.*s: %s", (int)n, w->path, what);
	w->fn(w->ctx, line);
}

static bool is_id(const char *s, size_t n)
{
	return (n == 40 || n == 64) && strspn(s, "0123456789abcdef") >= n;
}

static bool read_small(const struct stack_dir *d, const char *name, struct buf *out)
{
	struct err e;
	auto_fd int fd = stack_dir_open(d, name);
	if (fd < 0 || fs_read_fd(fd, out, &e))
		return false;
	while (out->n && strchr("\n\r ", out->p[out->n - 1]))
		out->p[--out->n] = 0;
	return true;
}

// --- refs ---

static int ref_order(const void *a, const void *b)
{
	return strcmp(((const struct ref *)a)->name, ((const struct ref *)b)->name);
}

static void refs_add(struct refs *r, const char *name, const char *id, size_t n)
{
	if (r->n >= REFS_MAX)
		return;
	if (!(r->n & (r->n - 1)))
		r->v = xrealloc(r->v, (r->n ? r->n * 2 : 1) * sizeof *r->v);
	struct ref *f = &r->v[r->n++];
	*f = (struct ref){.name = xstrdup(name)};
	memcpy(f->id, id, n);
}

static void refs_done(struct refs *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].name);
	free(r->v);
	*r = (struct refs){0};
}

static void refs_sort(struct refs *r)
{
	if (r->n)
		qsort(r->v, r->n, sizeof *r->v, ref_order);
}

static const struct ref *refs_find(const struct refs *r, const char *name)
{
	struct ref key = {.name = (char *)(uintptr_t)name};
	return r->n ? bsearch(&key, r->v, r->n, sizeof *r->v, ref_order) : NULL;
}

static void refs_read_packed(struct refs *r, const struct stack_dir *d)
{
	auto_buf struct buf b = BUF_INIT(PACKED_MAX);
	if (!read_small(d, "packed-refs", &b) || !b.n)
		return;
	char *save = NULL;
	for (char *line = strtok_r(b.p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');
		if (!space || !is_id(line, (size_t)(space - line)))
			continue;
		refs_add(r, space + 1, line, (size_t)(space - line));
	}
	refs_sort(r);
}

// Files of a directory of the upper layers, at any depth, by their path below it.
typedef void file_fn(struct work *w, const struct stack_dir *d, const char *name, const char *path);

static void files_each(struct work *w, const struct stack_dir *d, const char *path, file_fn *fn, int depth)
{
	auto_names struct names n = {0};
	if (depth > DEPTH_MAX || stack_dir_names(d, &n, NAMES_MAX))
		return;
	for (size_t i = 0; i < n.n; i++) {
		struct stack_dir sub;
		const char *name = n.list[i].name;
		auto_free char *full = xasprintf("%s/%s", path, name);
		if (stack_dir_enter(d, name, &sub)) {
			files_each(w, &sub, full, fn, depth + 1);
			stack_dir_close(&sub);
		} else if (stack_dir_look(d, name) == STACK_FILE) {
			fn(w, d, name, full);
		}
	}
}

static void on_loose_ref(struct work *w, const struct stack_dir *d, const char *name, const char *path)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (!str_has_suffix(name, ".lock") && read_small(d, name, &b) && is_id(buf_cstr(&b), b.n))
		refs_add(&w->now, path, b.p, b.n);
}

// Loose ones go over packed ones.
static void refs_read_upper(struct work *w)
{
	struct stack_dir refs;
	struct refs packed = {0};
	if (stack_dir_enter(&w->up, "refs", &refs)) {
		files_each(w, &refs, "refs", on_loose_ref, 0);
		stack_dir_close(&refs);
	}
	refs_sort(&w->now);
	refs_read_packed(&packed, &w->up);
	size_t n = w->now.n;
	for (size_t i = 0; i < packed.n; i++) {
		struct refs loose = {w->now.v, n};
		if (!refs_find(&loose, packed.v[i].name))
			refs_add(&w->now, packed.v[i].name, packed.v[i].id, strlen(packed.v[i].id));
	}
	refs_sort(&w->now);
	refs_done(&packed);
}

// What the base has under a name, "" for nothing.
static void low_value(struct work *w, const char *name, char out[ID_MAX + 1])
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct stack_dir dir;
	const char *slash = strrchr(name, '/');
	*out = 0;
	if (!w->has_low)
		return;
	auto_free char *parent = xstrndup(name, (size_t)(slash - name));
	if (stack_dir_enter(&w->low, parent, &dir)) {
		bool found = read_small(&dir, slash + 1, &b) && is_id(buf_cstr(&b), b.n);
		stack_dir_close(&dir);
		if (found) {
			memcpy(out, b.p, b.n + 1);
			return;
		}
	}
	if (!w->low_packed_read)
		refs_read_packed(&w->low_packed, &w->low);
	w->low_packed_read = true;
	const struct ref *f = refs_find(&w->low_packed, name);
	if (f)
		memcpy(out, f->id, sizeof f->id);
}

static bool is_counted(const char *name)
{
	static const char *const others[] = {"refs/remotes/", "refs/bisect/", "refs/rewritten/", "refs/prefetch/"};
	for (size_t i = 0; i < countof(others); i++)
		if (str_has_prefix(name, others[i]))
			return false;
	return str_has_prefix(name, "refs/");
}

// The newest stash is told with the others, by its log.
static void refs_tell(struct work *w, bool has_stash_log)
{
	for (size_t i = 0; i < w->now.n; i++) {
		const struct ref *f = &w->now.v[i];
		char low[ID_MAX + 1];
		if (!is_counted(f->name) || (has_stash_log && !strcmp(f->name, "refs/stash")))
			continue;
		low_value(w, f->name, low);
		if (strcmp(low, f->id))
			say(w, f->name);
	}
}

// --- objects ---

static void store_add(struct store *s, const struct stack_dir *objects)
{
	struct stack_dir pack;
	auto_names struct names n = {0};
	if (s->n == BORROWED_MAX)
		return;
	s->dir[s->n++] = *objects;
	if (!stack_dir_enter(objects, "pack", &pack))
		return;
	if (!stack_dir_names(&pack, &n, NAMES_MAX))
		for (size_t i = 0; i < n.n && s->n_packs < PACKS_MAX; i++) {
			int fd = str_has_suffix(n.list[i].name, ".idx") ? stack_dir_open(&pack, n.list[i].name) : -1;
			if (fd >= 0)
				s->packs[s->n_packs++] = fd;
		}
	stack_dir_close(&pack);
}

static void store_done(struct store *s)
{
	while (s->n)
		stack_dir_close(&s->dir[--s->n]);
	while (s->n_packs)
		close(s->packs[--s->n_packs]);
}

// Absolute paths inside, written by skep into a layer that no cell can write.
static void store_borrow(struct store *s, const struct stack_dir *low)
{
	auto_buf struct buf b = BUF_INIT(256u << 10);
	struct stack_dir info;
	bool found = stack_dir_enter(low, "objects/info", &info);
	char *save = NULL;
	if (found)
		read_small(&info, "alternates", &b);
	if (found)
		stack_dir_close(&info);
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	for (char *line = b.n ? strtok_r(b.p, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		int fd = *line == '/' ? (int)syscall(SYS_openat2, AT_FDCWD, line, &how, sizeof how) : -1;
		if (fd >= 0)
			store_add(s, &(struct stack_dir){.fd = {fd}, .n = 1});
	}
}

static void stores_open(struct work *w)
{
	struct stack_dir objects;
	if (w->stores_open)
		return;
	w->stores_open = true;
	if (stack_dir_enter(&w->up, "objects", &objects))
		store_add(&w->mine, &objects);
	if (w->has_low && stack_dir_enter(&w->low, "objects", &objects))
		store_add(&w->theirs, &objects);
	if (w->has_low)
		store_borrow(&w->theirs, &w->low);
}

static uint32_t read_be32(int fd, uint64_t at)
{
	uint8_t b[4];
	if (pread(fd, b, sizeof b, (off_t)at) != sizeof b)
		return 0;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

// Version 2: 8 bytes of magic, 256 sums of how many ids begin so or lower, the ids.
static bool pack_has(int fd, const uint8_t *id, size_t size)
{
	uint8_t magic[8], at[32];
	if (pread(fd, magic, sizeof magic, 0) != sizeof magic || memcmp(magic, "\377tOc\0\0\0\2", sizeof magic))
		return false;
	uint32_t lo = id[0] ? read_be32(fd, 8 + 4u * (id[0] - 1u)) : 0, hi = read_be32(fd, 8 + 4u * id[0]);
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (pread(fd, at, size, (off_t)(8 + 256 * 4 + (uint64_t)mid * size)) != (ssize_t)size)
			return false;
		int order = memcmp(at, id, size);
		if (!order)
			return true;
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

static uint8_t hex_digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static bool store_has(const struct store *s, const char *hex)
{
	uint8_t id[ID_MAX / 2];
	size_t n = strlen(hex) / 2;
	char dir[3] = {hex[0], hex[1], 0};
	for (size_t i = 0; i < n; i++)
		id[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
	for (int i = 0; i < s->n_packs; i++)
		if (pack_has(s->packs[i], id, n))
			return true;
	for (int i = 0; i < s->n; i++) {
		struct stack_dir sub;
		if (!stack_dir_enter(&s->dir[i], dir, &sub))
			continue;
		bool found = stack_dir_look(&sub, hex + 2) == STACK_FILE;
		stack_dir_close(&sub);
		if (found)
			return true;
	}
	return false;
}

static bool is_new(struct work *w, const char *hex)
{
	stores_open(w);
	return store_has(&w->mine, hex) && !store_has(&w->theirs, hex);
}

// --- commits that no ref names ---

static bool is_value_of_ref(const struct work *w, const char *hex)
{
	for (size_t i = 0; i < w->now.n; i++)
		if (!strcmp(w->now.v[i].id, hex))
			return true;
	return false;
}

static void commit_tell(struct work *w, const char *hex)
{
	for (char **t = w->told; t && *t; t++)
		if (!strcmp(*t, hex))
			return;
	if (!is_new(w, hex) || is_value_of_ref(w, hex))
		return;
	strv_add(&w->told, hex);
	auto_free char *what = xasprintf("commit %.12s", hex);
	say(w, what);
}

// One line of a log: "OLD NEW who when<tab>message".
struct move {
	char from[ID_MAX + 1], to[ID_MAX + 1];
	bool grows; // `from` is an ancestor of `to`
};

struct moves {
	struct move *v;
	size_t n;
	struct refs froms; // of those that grow
};

static bool move_grows(const char *message)
{
	static const char *const words[] = {"commit: ", "commit (initial)", "commit (merge)", "commit (cherry-pick)", "cherry-pick: ", "revert: ",
					    "merge ", "rebase (pick)", "rebase (continue)", "am: "};
	for (size_t i = 0; i < countof(words); i++)
		if (str_has_prefix(message, words[i]))
			return true;
	return strstr(message, "Fast-forward") != NULL;
}

static bool move_parse(const char *line, struct move *out)
{
	size_t from = strcspn(line, " ");
	const char *second = line[from] ? line + from + 1 : "";
	size_t to = strcspn(second, " ");
	const char *tab = strchr(second, '\t');
	*out = (struct move){0};
	if (!is_id(line, from) || !is_id(second, to))
		return false;
	memcpy(out->from, line, from);
	memcpy(out->to, second, to);
	out->grows = tab && move_grows(tab + 1);
	return true;
}

static void moves_read(struct moves *m, const struct stack_dir *d, const char *name)
{
	auto_buf struct buf b = BUF_INIT(LOG_MAX);
	char *save = NULL;
	if (!read_small(d, name, &b) || !b.n)
		return;
	for (char *line = strtok_r(b.p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct move one;
		if (!move_parse(line, &one))
			continue;
		if (!(m->n & (m->n - 1)))
			m->v = xrealloc(m->v, (m->n ? m->n * 2 : 1) * sizeof *m->v);
		m->v[m->n++] = one;
		if (one.grows)
			refs_add(&m->froms, one.from, one.to, strlen(one.to));
	}
	refs_sort(&m->froms);
}

static void moves_done(struct moves *m)
{
	free(m->v);
	refs_done(&m->froms);
}

// How many of the first moves the base's own log has: its lines were copied, and are no work of the sandbox.
static size_t moves_common(const struct work *w, const struct moves *m, const char *path)
{
	struct moves was = {0};
	struct stack_dir dir;
	size_t n = 0;
	const char *slash = strrchr(path, '/');
	auto_free char *parent = xstrndup(path, (size_t)(slash - path));
	if (!w->has_low || !stack_dir_enter(&w->low, parent, &dir))
		return 0;
	moves_read(&was, &dir, slash + 1);
	stack_dir_close(&dir);
	while (n < m->n && n < was.n && !strcmp(m->v[n].to, was.v[n].to))
		n++;
	moves_done(&was);
	return n;
}

static void on_log(struct work *w, const struct stack_dir *d, const char *name, const char *path)
{
	struct moves m = {0};
	if (strstr(path, "logs/refs/remotes/") || strstr(path, "logs/refs/stash"))
		return;
	moves_read(&m, d, name);
	for (size_t i = moves_common(w, &m, path); i < m.n; i++)
		if (!refs_find(&m.froms, m.v[i].to) && (!i || strcmp(m.v[i].to, m.v[i - 1].to)))
			commit_tell(w, m.v[i].to);
	moves_done(&m);
}

static void head_tell(struct work *w, const struct stack_dir *d)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (read_small(d, "HEAD", &b) && is_id(buf_cstr(&b), b.n))
		commit_tell(w, buf_cstr(&b));
}

static void logs_tell(struct work *w, const struct stack_dir *d)
{
	struct stack_dir logs;
	if (!stack_dir_enter(d, "logs", &logs))
		return;
	files_each(w, &logs, "logs", on_log, 0);
	stack_dir_close(&logs);
}

// Newest first, as git numbers them. True: there is a log.
static bool stashes_tell(struct work *w)
{
	struct stack_dir up, low;
	struct moves now = {0}, was = {0};
	if (!stack_dir_enter(&w->up, "logs/refs", &up))
		return false;
	bool found = stack_dir_look(&up, "stash") == STACK_FILE;
	moves_read(&now, &up, "stash");
	stack_dir_close(&up);
	if (w->has_low && stack_dir_enter(&w->low, "logs/refs", &low)) {
		moves_read(&was, &low, "stash");
		stack_dir_close(&low);
	}
	for (size_t i = now.n; i--;) {
		bool old = false;
		for (size_t k = 0; k < was.n && !old; k++)
			old = !strcmp(was.v[k].to, now.v[i].to);
		auto_free char *what = xasprintf("stash@{%zu}", now.n - 1 - i);
		if (!old)
			say(w, what);
	}
	moves_done(&now);
	moves_done(&was);
	return found;
}

// --- what is staged ---

static void staged_tell(struct work *w)
{
	struct gitindex now, was = {0};
	auto_fd int fd = stack_dir_open(&w->up, "index");
	if (fd < 0 || gitindex_read(&now, fd))
		return;
	auto_fd int low = w->has_low ? stack_dir_open(&w->low, "index") : -1;
	if (low >= 0 && gitindex_read(&was, low))
		was = (struct gitindex){0};
	size_t above = strlen(w->path) - strlen(".git"); // the directory that the paths are relative to
	for (size_t i = 0; i < now.n; i++) {
		const struct gitindex_entry *e = &now.v[i], *old = gitindex_find(&was, e->path);
		char hex[ID_MAX + 1];
		auto_free char *path = xasprintf("%.*s%s", (int)above, w->path, e->path);
		if ((old && was.id_size == now.id_size && !memcmp(old->id, e->id, now.id_size)) || w->is_told(w->ctx, path))
			continue;
		str_hex(hex, e->id, now.id_size);
		auto_free char *what = xasprintf("staged %s", e->path);
		if (is_new(w, hex) && (!i || strcmp(e->path, now.v[i - 1].path)))
			say(w, what);
	}
	gitindex_done(&now);
	gitindex_done(&was);
}

// --- one git directory ---

static bool has_reftable(struct work *w)
{
	struct stack_dir up, low;
	auto_buf struct buf now = BUF_INIT(1 << 20), was = BUF_INIT(1 << 20);
	if (!stack_dir_enter(&w->up, "reftable", &up))
		return false;
	read_small(&up, "tables.list", &now);
	stack_dir_close(&up);
	if (w->has_low && stack_dir_enter(&w->low, "reftable", &low)) {
		read_small(&low, "tables.list", &was);
		stack_dir_close(&low);
	}
	return strcmp(buf_cstr(&now), buf_cstr(&was)) != 0;
}

static void worktrees_tell(struct work *w)
{
	struct stack_dir list, one;
	auto_names struct names n = {0};
	if (!stack_dir_enter(&w->up, "worktrees", &list))
		return;
	if (!stack_dir_names(&list, &n, NAMES_MAX))
		for (size_t i = 0; i < n.n; i++) {
			if (!stack_dir_enter(&list, n.list[i].name, &one))
				continue;
			head_tell(w, &one);
			logs_tell(w, &one);
			stack_dir_close(&one);
		}
	stack_dir_close(&list);
}

static void work_look(struct work *w, bool is_worktree_index)
{
	refs_read_upper(w);
	refs_tell(w, stashes_tell(w));
	head_tell(w, &w->up);
	logs_tell(w, &w->up);
	worktrees_tell(w);
	if (has_reftable(w))
		say(w, "refs (kept in a reftable)");
	if (is_worktree_index)
		staged_tell(w);
}

static void work_at(const struct work *like, const char *path, int depth);

// As an upper layer has it, which need not be whole.
static bool is_git_directory(const struct stack_dir *d)
{
	return stack_dir_look(d, "HEAD") == STACK_FILE || stack_dir_look(d, "index") == STACK_FILE ||
	       stack_dir_look(d, "refs") == STACK_DIR || stack_dir_look(d, "logs") == STACK_DIR;
}

// modules/NAME, where a name may have slashes.
static void modules_look(const struct work *w, const struct stack_dir *d, const char *path, int depth)
{
	auto_names struct names n = {0};
	if (depth > DEPTH_MAX || stack_dir_names(d, &n, NAMES_MAX))
		return;
	for (size_t i = 0; i < n.n; i++) {
		struct stack_dir sub;
		auto_free char *full = xasprintf("%s/%s", path, n.list[i].name);
		if (!stack_dir_enter(d, n.list[i].name, &sub))
			continue;
		if (is_git_directory(&sub))
			work_at(w, full, depth + 1);
		else
			modules_look(w, &sub, full, depth + 1);
		stack_dir_close(&sub);
	}
}

static void work_at(const struct work *like, const char *path, int depth)
{
	struct stack_dir top, modules;
	struct work w = {.stack = like->stack, .path = path, .fn = like->fn, .is_told = like->is_told, .ctx = like->ctx};
	stack_dir_top(w.stack, STACK_UPPER, &top);
	if (depth > DEPTH_MAX || !stack_dir_enter(&top, path, &w.up))
		return;
	stack_dir_top(w.stack, STACK_LOWER, &top);
	w.has_low = stack_dir_enter(&top, path, &w.low);
	work_look(&w, depth == 0);
	if (stack_dir_enter(&w.up, "modules", &modules)) {
		auto_free char *below = xasprintf("%s/modules", path);
		modules_look(&w, &modules, below, depth + 1);
		stack_dir_close(&modules);
	}
	store_done(&w.mine);
	store_done(&w.theirs);
	refs_done(&w.now);
	refs_done(&w.low_packed);
	strv_free(w.told);
	stack_dir_close(&w.up);
	stack_dir_close(&w.low);
}

void gitwork_each(const struct stack *s, const char *path, gitwork_fn *fn, gitwork_told_fn *told, void *ctx)
{
	struct work like = {.stack = s, .fn = fn, .is_told = told, .ctx = ctx};
	work_at(&like, path, 0);
}
