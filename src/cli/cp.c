// SPDX-License-Identifier: Apache-2.0
// cp: files between here and a sandbox, as `cp -r` would: into a directory that exists, else under the new
// name. Inside, init packs and unpacks (base/pack.h); here a forked child does, and the pump connects them.
//
// What comes out of a cell is hostile: it is unpacked into a fresh directory, and only the one name that
// was asked for is moved from there to its place.
#include "base/fs.h"
#include "base/mem.h"
#include "base/pack.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/place.h"
#include "cli/pump.h"
#include "cli/request.h"
#include "cli/verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct side {
	char *id;   // NULL = here
	char *path; // without trailing slashes
	bool slash; // there was one: it must be a directory
};

static void side_done(struct side *s)
{
	free(s->id);
	free(s->path);
}

// ID:/path is inside; a colon behind a slash is part of a local name.
static void side_parse(const char *arg, struct side *out)
{
	const char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');
	bool remote = colon && colon != arg && (!slash || colon < slash) && *arg != '.';
	const char *path = remote ? colon + 1 : arg;
	size_t n = strlen(path);
	out->slash = n > 1 && path[n - 1] == '/';
	while (n > 1 && path[n - 1] == '/')
		n--;
	out->id = remote ? xstrndup(arg, (size_t)(colon - arg)) : NULL;
	out->path = xstrndup(path, n);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool is_plain_name(const char *name)
{
	return *name && strcmp(name, ".") && strcmp(name, "..");
}

// The directory a path lies in.
static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

// --- operations of init ---

struct job {
	struct api *api;
	const char *id;
	char *const *argv;
	int in, out; // -1 = none
};

static int memory_file(struct err *e)
{
	int fd = memfd_create("skep", MFD_CLOEXEC);
	return fd < 0 ? err_sys(e, "memfd") : fd;
}

static int said(int fd, struct buf *out, struct err *e)
{
	return lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, "seek") : fs_read_fd(fd, out, e);
}

// What it wrote to stderr is the error.
static int job_failed(int errfd, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	if (said(errfd, &b, e))
		return -1;
	const char *text = buf_cstr(&b);
	return err_set(e, ERR_SYSTEM, "inside: %.*s", (int)strcspn(text, "\n"), *text ? text : "failed without a word");
}

static int job_run(const struct job *j, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	auto_free char *path = api_path("/v1/sandboxes", j->id, "jobs");
	if (request_job(&body, j->argv, j->in >= 0, e))
		return -1;
	auto_json json_t *answer = api_json(j->api, "POST", path, buf_cstr(&body), e);
	auto_fd int errfd = answer ? memory_file(e) : -1;
	if (errfd < 0)
		return -1;
	const json_t *attach = json_object_get(answer, "attach");
	struct pump_spec spec = {.socket = json_str(attach, "socket"),
				 .ticket = json_str(attach, "ticket"),
				 .in = j->in,
				 .out = j->out,
				 .err = errfd};
	struct pump_result r;
	if (pump_run(&spec, &r, e))
		return -1;
	int rc = 0;
	if (r.out_closed)
		rc = err_set(e, ERR_SYSTEM, "interrupted");
	else if (r.exit.status)
		rc = job_failed(errfd, e);
	pump_result_done(&r);
	return rc;
}

enum kind { KIND_NONE, KIND_DIR, KIND_FILE, KIND_LINK, KIND_OTHER, KINDS };

static int ask_kind(struct api *a, const char *id, char *path, enum kind *out, struct err *e)
{
	static const char *const names[] = {"none\n", "dir\n", "file\n", "link\n", "other\n"};
	char op[] = "kind";
	char *argv[] = {op, path, NULL};
	auto_buf struct buf b = BUF_INIT(64);
	auto_fd int fd = memory_file(e);
	if (fd < 0 || job_run(&(struct job){.api = a, .id = id, .argv = argv, .in = -1, .out = fd}, e) ||
	    said(fd, &b, e))
		return -1;
	for (int k = 0; k < KINDS; k++)
		if (!strcmp(buf_cstr(&b), names[k])) {
			*out = (enum kind)k;
			return 0;
		}
	return err_set(e, ERR_BUG, "the cell gave a strange answer");
}

// Of what a link leads to.
static int ask_target_kind(struct api *a, const char *id, char *path, enum kind *out, struct err *e)
{
	enum kind k, behind = KIND_FILE;
	if (ask_kind(a, id, path, &k, e))
		return -1;
	auto_free char *through = xasprintf("%s/.", path);
	if (k == KIND_LINK && ask_kind(a, id, through, &behind, e))
		return -1;
	*out = k != KIND_LINK ? k : behind == KIND_DIR ? KIND_DIR : KIND_FILE;
	return 0;
}

// --- the child on this side ---

// ^C ends the child that packs or unpacks, and with it the copy; we tidy up before it takes us.
static void hold_interrupts(bool on)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

struct child {
	pid_t pid;
	int report; // it writes a struct err when it fails
};

struct work {
	bool pack;		 // else unpack
	const char *path, *name; // pack
	int dirfd;		 // unpack
};

// Forks; the child does the work on one end of a pipe, the other is returned.
static int child_start(const struct work *w, struct child *c, struct err *e)
{
	int data[2], rep[2];
	if (pipe2(data, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int mine = data[!w->pack], theirs = data[w->pack];
	if (pipe2(rep, O_CLOEXEC))
		return err_sys(e, "pipe");
	c->report = rep[0];
	auto_fd int report = rep[1];
	c->pid = fork();
	if (c->pid < 0)
		return err_sys(e, "fork");
	if (c->pid)
		return take_fd(&mine);
	close_fd(&mine);
	hold_interrupts(false);
	int rc = w->pack ? pack_write(theirs, AT_FDCWD, w->path, w->name, e) : pack_read(theirs, w->dirfd, e);
	if (rc && write(report, e, sizeof *e) < 0)
		_exit(2);
	_exit(rc ? 1 : 0);
}

// Its error, if it is not just the echo of the other side's.
static int child_end(struct child *c, int job_rc, struct err *e)
{
	struct err own;
	int status;
	ssize_t n = read(c->report, &own, sizeof own);
	close_fd(&c->report);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n == sizeof own && own.sys != EPIPE) {
		own.msg[sizeof own.msg - 1] = 0;
		*e = own;
		return -1;
	}
	if (job_rc)
		return -1;
	return status ? err_set(e, ERR_SYSTEM, "interrupted") : 0;
}

static int transfer(struct api *a, const char *id, char *const *argv, const struct work *w, struct err *e)
{
	struct child c = {.report = -1};
	auto_fd int fd = child_start(w, &c, e);
	if (fd < 0) {
		close_fd(&c.report);
		return -1;
	}
	int rc = job_run(
		&(struct job){.api = a, .id = id, .argv = argv, .in = w->pack ? fd : -1, .out = w->pack ? -1 : fd}, e);
	close_fd(&fd);
	return child_end(&c, rc, e);
}

// --- both directions ---

// A copy into a sandbox starts it, as a command would: else what goes to its /tmp would end with the copy.
static int start_if_stopped(struct api *a, const char *id, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", id, NULL), *start = api_path("/v1/sandboxes", id, "start");
	auto_json json_t *box = api_json(a, "GET", path, NULL, e);
	if (!box)
		return -1;
	return strcmp(json_str(box, "state"), "stopped") ? 0 : api_do(a, "POST", start, "{}", e);
}

static int copy_in(struct api *a, const struct side *src, const struct side *dst, struct err *e)
{
	struct stat st;
	enum kind kind;
	if (lstat(src->path, &st)) {
		err_sys(e, "%s", src->path);
		e->kind = errno == ENOENT ? ERR_NOT_FOUND : e->kind;
		return -1;
	}
	auto_free char *real = is_plain_name(base_name(src->path)) ? NULL : realpath(src->path, NULL);
	const char *name = base_name(real ? real : src->path);
	if (!is_plain_name(name))
		return err_set(e, ERR_INVALID, "%s has no name of its own to copy it under", src->path);
	if (start_if_stopped(a, dst->id, e) || ask_target_kind(a, dst->id, dst->path, &kind, e))
		return -1;
	if (kind != KIND_DIR && (dst->slash || (kind != KIND_NONE && S_ISDIR(st.st_mode))))
		return err_set(e, ERR_CONFLICT, "%s:%s is not a directory", dst->id, dst->path);
	char into[] = "unpack", as[] = "unpack-as";
	auto_free char *parent = parent_of(dst->path), *last = xstrdup(base_name(dst->path));
	char *below[] = {into, dst->path, NULL}, *renamed[] = {as, parent, last, NULL};
	struct work w = {.pack = true, .path = real ? real : src->path, .name = name};
	return transfer(a, dst->id, kind == KIND_DIR ? below : renamed, &w, e);
}

static mode_t current_umask(void)
{
	mode_t mask = umask(0);
	umask(mask);
	return mask;
}

// Of a directory whose base is gone only single files can be read: a list of it would be empty, and so would the copy.
static int check_base(struct api *a, const struct side *src, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", src->id, NULL);
	auto_json json_t *box = api_json(a, "GET", path, NULL, e);
	if (!box)
		return -1;
	const char *ws = json_str(box, "workspace_path"), *base = json_str(json_object_get(box, "base"), "state");
	size_t n = strlen(ws);
	bool inside = *ws && !strncmp(src->path, ws, n) && (!src->path[n] || src->path[n] == '/');
	bool above = *ws && !strncmp(src->path, ws, strlen(src->path)) && (src->path[1] == 0 || ws[strlen(src->path)] == '/');
	if (strcmp(base, "gone") || (!inside && !above))
		return 0;
	return err_set(e, ERR_CONFLICT, "the directory that %s is based on is gone, and %s can not be listed without it: `skep apply %s --to DIR` and "
		       "`skep export %s --patch FILE` take what was changed, skep cp takes single files", src->id, src->path, src->id, src->id);
}

static int copy_out(struct api *a, const struct side *src, const struct side *dst, struct err *e)
{
	enum kind kind;
	struct place p;
	char op[] = "pack";
	char *argv[] = {op, src->path, NULL};
	if (!is_plain_name(base_name(src->path)))
		return err_set(e, ERR_INVALID, "%s has no name of its own to copy it under", src->path);
	if (ask_kind(a, src->id, src->path, &kind, e))
		return -1;
	if (kind == KIND_NONE)
		return err_set(e, ERR_NOT_FOUND, "%s:%s does not exist", src->id, src->path);
	if (kind == KIND_DIR && check_base(a, src, e))
		return -1;
	if (place_open(&p, dst->path, dst->slash, base_name(src->path), e))
		return -1;
	struct work w = {.dirfd = p.temp};
	int rc = transfer(a, src->id, argv, &w, e);
	if (!rc)
		rc = place_move(&p, current_umask(), e);
	place_close(&p);
	return rc;
}

static int cp_run(const struct call *c)
{
	struct err e;
	struct side src, dst;
	auto_api struct api a = API_CLOSED;
	side_parse(c->words[0], &src);
	side_parse(c->words[1], &dst);
	int rc;
	if (!src.id == !dst.id)
		rc = err_set(&e, ERR_INVALID, "one of the two must be ID:/path (a local name with a colon: ./a:b)");
	else if ((src.id ? src.path : dst.path)[0] != '/')
		rc = err_set(&e, ERR_INVALID, "the path inside must be absolute: ID:/path");
	else
		rc = api_open(&a, &e);
	hold_interrupts(true);
	if (!rc)
		rc = src.id ? copy_out(&a, &src, &dst, &e) : copy_in(&a, &src, &dst, &e);
	hold_interrupts(false); // one that came meanwhile ends us here
	side_done(&src);
	side_done(&dst);
	return rc ? out_fail(c, &e) : 0;
}

const struct cmd cmd_cp = {
	.name = "cp",
	.args = "SRC DST",
	.help = "copy files into or out of a sandbox (one side is ID:/path)",
	.notes = "Directories are copied with all that is in them; links as links. Into a directory that exists the\n"
		 "copy keeps its name, else it gets the new one. Devices, FIFOs, sockets and setuid bits stay behind.",
	.min_words = 2,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_FILE,
	.run = cp_run,
};
