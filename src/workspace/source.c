// SPDX-License-Identifier: Apache-2.0
#include "workspace/source.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PERSON 1000u
#define NOBODY 65534u

// The directories themselves; below most of them a project may well live (/opt/project, /var/www/site).
static const char *const system_dirs[] = {
	"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/var",
	"/boot", "/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root", "/mnt", "/media", "/srv",
};
// Nothing below these is ever a project.
static const char *const kernel_dirs[] = {"/proc", "/sys", "/dev", "/run/user", "/etc", "/boot"};

bool path_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	if (n == 1 && dir[0] == '/')
		return path[0] == '/';
	return !strncmp(path, dir, n) && (path[n] == 0 || path[n] == '/');
}

bool path_is_clean(const char *path)
{
	if (path[0] != '/' || strlen(path) > 4095)
		return false;
	struct str rest = str_of(path + 1), part;
	if (!rest.n)
		return true;
	while (str_next(&rest, '/', &part))
		if (!part.n || str_is(part, ".") || str_is(part, ".."))
			return false;
	return true;
}

char *path_map(const char *base, const char *ws_path, const char *cwd)
{
	if (!base || !cwd || !path_is_clean(cwd) || !path_is_below(cwd, base))
		return xstrdup(ws_path);
	return xasprintf("%s%s", ws_path, cwd + strlen(base));
}

static int refuse(const char *path, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s can not be shown to a sandbox: %s", path, why);
}

// Homes of people and of root. Those of services are often directories of a system, and projects too (/var/www).
static bool is_persons_home(const struct passwd *pw)
{
	bool person = !pw->pw_uid || (pw->pw_uid >= FIRST_PERSON && pw->pw_uid < NOBODY);
	return person && pw->pw_dir && pw->pw_dir[0] == '/' && pw->pw_dir[1];
}

// Root works in everybody's directories (sudo keeps the caller's), and may read what others keep there.
static int check_other_homes(const char *path, struct err *e)
{
	struct passwd entry, *pw = NULL;
	struct stat st;
	char text[4096];
	int rc = 0;
	if (!stat(path, &st) && !getpwuid_r(st.st_uid, &entry, text, sizeof text, &pw) && pw && is_persons_home(pw) &&
	    !strcmp(path, pw->pw_dir)) // also an account that is not in the file
		return refuse(path, "it is the home directory of a user of this machine", e);
	FILE *f = fopen("/etc/passwd", "re");
	while (f && !rc && !fgetpwent_r(f, &entry, text, sizeof text, &pw)) {
		if (!is_persons_home(pw))
			continue;
		if (!strcmp(path, pw->pw_dir))
			rc = refuse(path, "it is the home directory of a user of this machine", e);
		else if (path_is_below(pw->pw_dir, path))
			rc = refuse(path, "the home directory of a user of this machine lies below it", e);
	}
	if (f)
		fclose(f);
	return rc;
}

int source_check(const struct source_rules *r, const char *path, struct err *e)
{
	if (!strcmp(path, "/"))
		return refuse(path, "it is the whole machine", e);
	const char *homes[] = {r->home, r->home2};
	for (size_t i = 0; i < countof(homes); i++) {
		if (!homes[i] || !strcmp(homes[i], "/"))
			continue;
		if (!strcmp(path, homes[i]))
			return refuse(path, "it is your home directory", e);
		if (path_is_below(homes[i], path))
			return refuse(path, "your home directory lies below it", e);
	}
	if (path_is_below(path, r->skep_home))
		return refuse(path, "it belongs to skep's own state", e);
	if (path_is_below(r->skep_home, path))
		return refuse(path, "skep's own state lies below it", e);
	for (size_t i = 0; i < countof(system_dirs); i++)
		if (!strcmp(path, system_dirs[i]))
			return refuse(path, "it is a system directory", e);
	for (size_t i = 0; i < countof(kernel_dirs); i++)
		if (path_is_below(path, kernel_dirs[i]))
			return refuse(path, "it lies in a system directory", e);
	return r->home && path_is_below(path, r->home) ? 0 : check_other_homes(path, e);
}

// The nearest directory upwards with a .git that may be a base. A repository in the home directory (kept
// dotfiles) does not swallow every project below it.
static char *git_top(const struct source_rules *r, const char *dir)
{
	struct err ignored;
	auto_free char *at = xstrdup(dir);
	while (at[1]) {
		auto_free char *git = xasprintf("%s/.git", at);
		struct stat st;
		if (!lstat(git, &st) && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
			return source_check(r, at, &ignored) ? NULL : take(&at);
		char *slash = strrchr(at, '/');
		slash[slash == at] = 0;
	}
	return NULL;
}

bool source_is_url(const char *s)
{
	const char *colon = strchr(s, ':');
	return strstr(s, "://") || (s[0] != '/' && colon && !memchr(s, '/', (size_t)(colon - s)));
}

// Who may fetch is the caller's git's business: a password in the text is used once and never kept. The user of ssh is
// part of the place.
char *source_url(const char *s, struct err *e)
{
	static const char *const schemes[] = {"https", "http", "ssh", "git", "file"};
	const char *at = strstr(s, "://");
	if (!at && strlen(s) < 2048 && s[0] != '-' && !strstr(s, "::")) // "ext::" and its kind name programs
		return xstrdup(s);
	if (!at) {
		err_set(e, ERR_INVALID, "%.60s is not a repository", s);
		return NULL;
	}
	bool known = false, web = str_has_prefix(s, "http");
	for (size_t i = 0; i < countof(schemes); i++)
		known |= strlen(schemes[i]) == (size_t)(at - s) && !strncmp(s, schemes[i], (size_t)(at - s));
	if (!known || strlen(s) > 2048) {
		err_set(e, ERR_INVALID, "%.60s: a repository is reached by https, ssh, git, file or http", s);
		return NULL;
	}
	const char *host = at + 3, *end = host + strcspn(host, "/"), *user_end = memrchr(host, '@', (size_t)(end - host));
	if (!user_end)
		return xstrdup(s);
	size_t user = strcspn(host, ":@");
	return web ? xasprintf("%.*s%s", (int)(host - s), s, user_end + 1) : xasprintf("%.*s%.*s%s", (int)(host - s), s, (int)user, host, user_end);
}

// What a base can be instead.
static int advise(struct err *e)
{
	struct err why = *e;
	return err_set(e, why.kind, "%s. Go to a project directory, name one with --repo DIR, or use --empty", why.msg);
}

static int judge(const struct source_rules *r, char *path, struct source *out, struct err *e)
{
	auto_free char *base = path;
	struct stat st;
	if (source_check(r, base, e))
		return advise(e);
	if (stat(base, &st))
		return err_sys(e, "%s", base);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a directory", base);
	if (access(base, R_OK | X_OK))
		return err_sys(e, "%s can not be read", base);
	*out = (struct source){take(&base), st.st_dev, st.st_ino};
	return 0;
}

int source_resolve(const struct source_rules *r, const char *cwd, const char *repo, struct source *out, struct err *e)
{
	const char *from = repo ? repo : cwd;
	if (!from)
		return err_set(e, ERR_INVALID, "no directory given: send \"cwd\" or \"repo\", or ask for an empty workspace");
	if (from[0] != '/')
		return err_set(e, ERR_INVALID, "%.200s is not an absolute path", from);
	auto_free char *real = realpath(from, NULL);
	if (!real)
		return errno == ENOENT || errno == ENOTDIR
			       ? err_set(e, ERR_INVALID, "no directory %.300s", from)
			       : err_sys(e, "%.300s", from);
	char *top = repo ? NULL : git_top(r, real);
	return judge(r, top ? top : take(&real), out, e);
}

bool source_is(const char *base, uint64_t dev, uint64_t ino)
{
	struct stat st;
	return !stat(base, &st) && S_ISDIR(st.st_mode) && st.st_dev == dev && st.st_ino == ino;
}

static void trim_end(struct buf *b)
{
	while (b->n && isspace((unsigned char)b->p[b->n - 1]))
		b->p[--b->n] = 0;
}

static bool is_ref(const char *s)
{
	return str_has_prefix(s, "refs/") && !strstr(s, "..") && strlen(s) < 512;
}

// Text files of a repository that may be hostile: read through the directory, bounded, printed as data only.
char *source_head(const char *base)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(1024);
	auto_fd int dir = fs_open(AT_FDCWD, base, O_PATH | O_DIRECTORY, 0, &e);
	auto_fd int git = dir < 0 ? -1 : fs_open_beneath(dir, ".git", O_RDONLY | O_DIRECTORY, 0, &e);
	auto_fd int head = git < 0 ? -1 : fs_open_beneath(git, "HEAD", O_RDONLY | O_NONBLOCK, 0, &e);
	if (head < 0 || fs_read_fd(head, &b, &e))
		return NULL;
	trim_end(&b);
	if (!str_has_prefix(buf_cstr(&b), "ref: "))
		return str_is_utf8(b.p, b.n) && b.n <= 64 ? buf_take(&b) : NULL;
	auto_free char *ref = xstrdup(b.p + 5);
	if (!is_ref(ref) || !str_is_utf8(ref, strlen(ref)))
		return NULL;
	buf_clear(&b);
	auto_fd int fd = fs_open_beneath(git, ref, O_RDONLY | O_NONBLOCK, 0, &e);
	if (fd < 0 || fs_read_fd(fd, &b, &e))
		return take(&ref); // packed or unborn: the name is what can be said cheaply
	trim_end(&b);
	return b.n >= 40 && b.n <= 64 && strspn(b.p, "0123456789abcdef") == b.n ? buf_take(&b) : take(&ref);
}
