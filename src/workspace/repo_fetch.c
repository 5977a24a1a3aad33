// SPDX-License-Identifier: Apache-2.0
// skep-repo fetch: a bare mirror per URL, made once, then only updated; one fetch at a time however many ask.
//
// The mirror holds no URL, no credentials and no configuration but ours. Objects are never removed (gc is off):
// sandboxes borrow them for as long as they live. REPO.git/skep-fetched tells when the last update began, so that
// those who waited for it need none of their own.
#include "workspace/repo_fetch_int.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define STAMP "skep-fetched"

static uint64_t boot_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void boot_id(struct buf *b)
{
	struct err ignored;
	if (fs_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", b, &ignored))
		buf_clear(b);
	while (b->n && b->p[b->n - 1] == '\n')
		b->p[--b->n] = 0;
}

void fetched_done(struct fetched *f)
{
	free(f->commit);
	free(f->ref);
	*f = (struct fetched){0};
}

static bool is_full_id(const char *s)
{
	return s && (gitref_is_id(s, 40) || gitref_is_id(s, 64));
}

static bool has_commit(const char *dir, const char *id)
{
	struct err e;
	auto_git struct git_run g;
	auto_free char *spec = xasprintf("%s^{commit}", id);
	git_init(&g, GIT_ALONE, dir);
	git_args(&g, "cat-file", "-e", spec, NULL);
	return fs_exists(AT_FDCWD, dir) && !git_start(&g, &e) && !g.status;
}

// The commit a name stands for in the mirror; NULL.
static char *resolve(const char *dir, const char *name)
{
	struct err e;
	auto_git struct git_run g;
	auto_free char *spec = xasprintf("%s^{commit}", name);
	git_init(&g, GIT_ALONE, dir);
	git_args(&g, "rev-parse", "--verify", "--quiet", "--end-of-options", spec, NULL);
	return git_start(&g, &e) || g.status ? NULL : xstrdup(git_output(&g));
}

static bool is_short_id(const char *ref)
{
	size_t n = strlen(ref);
	return n >= 7 && n < 64 && strspn(ref, "0123456789abcdef") == n;
}

// As git's own rules go: the full name, a tag, a branch; at last a part of a commit id.
static char *find_name(const char *dir, const char *ref, char **commit)
{
	static const char *const heads[] = {"", "refs/", "refs/tags/", "refs/heads/"};
	for (size_t i = 0; i < countof(heads); i++) {
		auto_free char *name = xasprintf("%s%s", heads[i], ref);
		if (gitref_is_name(name) && (*commit = resolve(dir, name)))
			return take(&name);
	}
	if (is_full_id(ref) || is_short_id(ref))
		*commit = resolve(dir, ref);
	return *commit ? xstrdup(*commit) : NULL;
}

static int look_up(const char *dir, const char *ref, const struct repo_url *u, const struct gitrefs *near,
		   struct fetched *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(300), head = BUF_INIT(2048);
	auto_free char *file = xasprintf("%s/HEAD", dir);
	if (!ref) {
		if (fs_read(AT_FDCWD, file, &head, e))
			return -1;
		while (head.n && head.p[head.n - 1] == '\n')
			head.p[--head.n] = 0;
		const char *h = buf_cstr(&head);
		out->ref = xstrdup(str_has_prefix(h, "ref: ") ? h + 5 : h);
		out->commit = resolve(dir, "HEAD");
		return out->commit
			       ? 0
			       : err_set(e, ERR_NOT_FOUND, "%.200s has no commit on its default branch yet", u->clean);
	}
	out->ref = find_name(dir, ref, &out->commit);
	if (out->ref)
		return 0;
	if (near)
		remote_near(near, ref, &b);
	return err_set(e, ERR_NOT_FOUND, "%.150s has no branch, tag or commit %.100s%s", u->clean, ref, buf_cstr(&b));
}

// True when an update that began after `asked` is there.
static bool is_fresh(const char *dir, uint64_t asked)
{
	struct err ignored;
	auto_buf struct buf b = BUF_INIT(200), id = BUF_INIT(100);
	auto_free char *file = xasprintf("%s/" STAMP, dir);
	uint64_t began;
	boot_id(&id);
	if (fs_read(AT_FDCWD, file, &b, &ignored))
		return false;
	struct str rest = str_of(buf_cstr(&b)), boot;
	if (!str_next(&rest, ' ', &boot) || !str_is(boot, buf_cstr(&id)))
		return false;
	return !str_to_u64(rest, 0, UINT64_MAX, &began) && began >= asked;
}

static int stamp(const char *dir, uint64_t began, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(200);
	auto_free char *file = xasprintf("%s/" STAMP, dir);
	boot_id(&b);
	buf_fmt(&b, " %llu", (unsigned long long)began);
	return fs_replace(AT_FDCWD, file, b.p, b.n, 0600, e);
}

static int init_mirror(const char *dir, unsigned hex, struct err *e)
{
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, dir);
	git_args(&g, "init", "--quiet", "--bare", "--template=", "--initial-branch=main",
		 hex == 64 ? "--object-format=sha256" : "--object-format=sha1", NULL);
	return git_must(&g, e) || fault(FAULT_FETCH_INIT, e) ? -1 : 0;
}

static int get(const struct repo_url *u, const char *dir, const char *one, const char *two, int lock, struct err *e)
{
	auto_git struct git_run g;
	remote_init(&g, u, dir, lock);
	g.relay = true;
	git_args(&g, "fetch", "--progress", "--no-tags", "--force", "--no-write-fetch-head", "--no-recurse-submodules",
		 "--no-auto-gc", NULL);
	if (two)
		git_arg(&g, "--prune");
	git_args(&g, "--", u->clean, one, two, NULL);
	if (git_start(&g, e))
		return -1;
	return g.status ? remote_failed(&g, u, e) : 0;
}

// Branches and tags; another ref, or a commit that is in none of them, only when it is asked for: some servers keep
// hundreds of thousands.
static int update(const struct repo_url *u, const char *dir, const char *ref, int lock, struct err *e)
{
	if (get(u, dir, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", lock, e))
		return -1;
	if (!ref || str_has_prefix(ref, "refs/heads/") || str_has_prefix(ref, "refs/tags/"))
		return 0;
	bool id = is_full_id(ref);
	if (!id && !gitref_is_name(ref))
		return 0;
	auto_free char *spec = id ? xasprintf("+%s:refs/skep/%s", ref, ref) : xasprintf("+%s:%s", ref, ref);
	return id && has_commit(dir, ref) ? 0 : get(u, dir, spec, NULL, lock, e);
}

// As the mirror's own HEAD has it: the remote's default branch, or its commit where it is on none. NULL: it has none.
static char *head_text(const char *head, const struct gitrefs *r)
{
	const struct gitref *f = gitrefs_find(r, "HEAD");
	return head ? xasprintf("ref: %s\n", head) : f ? xasprintf("%s\n", f->id) : NULL;
}

static int set_head(const char *dir, const char *head, const struct gitrefs *r, struct err *e)
{
	auto_free char *file = xasprintf("%s/HEAD", dir), *text = head_text(head, r);
	return text ? fs_replace(AT_FDCWD, file, text, strlen(text), 0644, e) : 0;
}

// The mirror's own refs are what the remote has now.
static bool is_current(const char *dir, const struct gitrefs *remote, const char *head)
{
	struct err e;
	auto_git struct git_run g;
	auto_buf struct buf want = BUF_INIT(64u << 20), now = BUF_INIT(2048);
	auto_free char *file = xasprintf("%s/HEAD", dir), *text = head_text(head, remote);
	git_init(&g, GIT_ALONE, dir);
	git_args(&g, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", NULL);
	for (size_t i = 0; i < remote->n; i++)
		if (str_has_prefix(remote->list[i].name, "refs/heads/") ||
		    str_has_prefix(remote->list[i].name, "refs/tags/"))
			buf_fmt(&want, "%s %s\n", remote->list[i].id, remote->list[i].name);
	if (git_start(&g, &e) || g.status || fs_read(AT_FDCWD, file, &now, &e))
		return false;
	return !strcmp(buf_cstr(&g.out), buf_cstr(&want)) && text && !strcmp(buf_cstr(&now), text);
}

// A first fetch leaves one file for each of thousands of refs.
static int pack_refs(const char *dir, struct err *e)
{
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, dir);
	git_args(&g, "pack-refs", "--all", NULL);
	return git_must(&g, e);
}

static int lock_mirror(const char *into, struct err *e)
{
	auto_free char *file = xasprintf("%s.lock", into);
	auto_fd int fd = fs_open(AT_FDCWD, file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	while (flock(fd, LOCK_EX))
		if (errno != EINTR)
			return err_sys(e, "lock %s", file);
	return fault(FAULT_FETCH_LOCK, e) ? -1 : take_fd(&fd);
}

// Its first fetch: beside its place, and put there when it is whole.
static int make(const struct repo_url *u, const char *into, const char *ref, int lock, const struct gitrefs *r,
		const char *head, uint64_t began, struct err *e)
{
	struct repo_dir d = {.fd = -1};
	int rc = repo_dir_begin(into, &d, e);
	if (rc <= 0)
		return rc;
	rc = init_mirror(d.partial, r->hex, e) || update(u, d.partial, ref, lock, e) || pack_refs(d.partial, e) ||
			     set_head(d.partial, head, r, e) || fault(FAULT_FETCH_DONE, e) ||
			     stamp(d.partial, began, e) || repo_dir_commit(&d, e)
		     ? -1
		     : 0;
	repo_dir_drop(&d);
	return rc;
}

// Asks the remote what it has, and gets it when it is new.
static int refresh(const struct repo_url *u, const char *into, const char *ref, int lock, struct fetched *out,
		   struct err *e)
{
	struct gitrefs r = {0};
	auto_free char *head = NULL;
	uint64_t began = boot_ns();
	bool odd = ref && (is_full_id(ref) || (gitref_is_name(ref) && !str_has_prefix(ref, "refs/heads/") &&
					       !str_has_prefix(ref, "refs/tags/")));
	int rc = remote_refs(u, ref && gitref_is_name(ref) ? ref : NULL, lock, &r, &head, e);
	if (rc)
		return -1;
	const struct gitref *named = odd ? gitrefs_find(&r, ref) : NULL;
	if (odd && !is_full_id(ref) && !named) {
		rc = err_set(e, ERR_NOT_FOUND, "%.150s has no ref %.100s", u->clean, ref);
	} else if (!fs_exists(AT_FDCWD, into)) {
		out->network = true;
		rc = make(u, into, ref, lock, &r, head, began, e);
	} else if (!is_current(into, &r, head) || (odd && !has_commit(into, named ? named->id : ref))) {
		out->network = true;
		rc = update(u, into, ref, lock, e) || set_head(into, head, &r, e) || fault(FAULT_FETCH_DONE, e) ||
				     stamp(into, began, e)
			     ? -1
			     : 0;
	} else {
		rc = stamp(into, began, e);
	}
	if (!rc)
		rc = look_up(into, ref, u, &r, out, e);
	gitrefs_done(&r);
	return rc;
}

int repo_mirror(const struct repo_url *u, const char *into, const char *ref, struct fetched *out, struct err *e)
{
	uint64_t asked = boot_ns();
	struct fetched f = {0};
	struct err ignored;
	if (ref && (!*ref || *ref == '-' || strlen(ref) > 1000))
		return err_set(e, ERR_INVALID, "\"%.100s\" is no name of a branch, tag or commit", ref);
	if (is_full_id(ref) && has_commit(into, ref)) {
		*out = (struct fetched){.commit = xstrdup(ref), .ref = xstrdup(ref)};
		return 0;
	}
	auto_fd int lock = lock_mirror(into, e);
	if (lock < 0)
		return -1;
	int rc = is_fresh(into, asked) && !look_up(into, ref, u, NULL, &f, &ignored)
			 ? 0
			 : refresh(u, into, ref, lock, &f, e);
	if (rc)
		fetched_done(&f);
	else
		*out = f;
	return rc;
}

int repo_read_url(const char *arg, struct repo_url *u, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (arg[0] == '@') {
		const char *value = getenv(arg + 1);
		return value ? repo_url_parse(value, u, e) : err_set(e, ERR_INVALID, "no variable %s", arg + 1);
	}
	if (strcmp(arg, "-"))
		return repo_url_parse(arg, u, e);
	if (fs_read_fd(STDIN_FILENO, &b, e))
		return -1;
	while (b.n && b.p[b.n - 1] == '\n')
		b.p[--b.n] = 0;
	int rc = repo_url_parse(buf_cstr(&b), u, e);
	if (b.p)
		explicit_bzero(b.p, b.n);
	return rc;
}

int repo_fetch(const struct repo_args *a, struct buf *out, struct err *e)
{
	struct repo_url u;
	struct fetched f;
	struct jsonw w = {.b = out};
	if (repo_read_url(a->url, &u, e))
		return -1;
	int rc = repo_mirror(&u, a->into, a->ref, &f, e);
	repo_url_done(&u);
	if (rc)
		return -1;
	jw_open(&w, '{');
	jw_kstr(&w, "commit", f.commit);
	jw_kstr(&w, "ref", f.ref);
	jw_kbool(&w, "fetched", f.network);
	jw_ku64(&w, "bytes", repo_disk_bytes(AT_FDCWD, a->into));
	jw_close(&w, '}');
	fetched_done(&f);
	return 0;
}
