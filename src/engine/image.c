// SPDX-License-Identifier: Apache-2.0
// Imported root file systems. The import is a child (skep-image) that works in images/ID.partial; the
// finished tree is renamed in place, so images/ID is always whole.
#include "engine/image_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMPORTS_MAX 4

static void import_free(void *p)
{
	struct import *im = p;
	buf_done(&im->out);
	image_row_done(&im->row);
	free(im);
}

static void unlink_import(struct import *im)
{
	for (struct import **p = &im->g->imports; *p; p = &(*p)->next)
		if (*p == im) {
			*p = im->next;
			return;
		}
}

static void discard_partial(struct import *im)
{
	auto_free char *dir = xasprintf("images/%s.partial", im->row.id);
	char *dirs[] = {dir, NULL};
	engine_discard(im->g, dirs);
}

// The last line of the child's output is its result.
static int read_result(struct import *im, struct err *e)
{
	char *end = im->out.p ? im->out.p + im->out.n : NULL;
	if (end && end > im->out.p && end[-1] == '\n')
		*--end = 0;
	char *line = im->out.p ? strrchr(im->out.p, '\n') : NULL;
	line = line ? line + 1 : im->out.p;
	struct err ignored;
	auto_json json_t *o = line ? json_read(line, strlen(line), &ignored) : NULL;
	const json_t *fail = o ? json_object_get(o, "error") : NULL;
	if (fail)
		return err_set(e, err_kind_parse(json_str(fail, "kind")), "%s", json_str(fail, "message"));
	if (!o || im->status)
		return err_set(e, ERR_SYSTEM, "skep-image ended without a result (wait status 0x%x)", (unsigned)im->status);
	im->row.bytes = json_u64(o, "bytes");
	im->row.files = json_u64(o, "files");
	return 0;
}

static int settle(struct import *im, struct err *e)
{
	auto_free char *partial = xasprintf("%s.partial", im->row.id);
	if (read_result(im, e))
		return -1;
	if (renameat(im->g->images, partial, im->g->images, im->row.id))
		return err_sys(e, "put the image in place");
	im->row.created = clock_unix_ms();
	engine_wrote(im->g);
	return store_image_add(im->g->store, &im->row, e) || store_flush(im->g->store, e) ? -1 : 0;
}

static void finish(struct import *im)
{
	struct err e;
	if (im->pipe.fd >= 0 || im->child.fd >= 0)
		return; // both must have ended
	unlink_import(im);
	if (settle(im, &e)) {
		discard_partial(im);
		im->done.fn(im->done.ctx, &e, NULL);
	} else {
		im->done.fn(im->done.ctx, NULL, &(struct outcome){.image = &im->row});
	}
	loop_bury(im->g->loop, im, import_free);
}

static void unwatch(struct import *im, struct watch *w)
{
	int fd = w->fd;
	loop_del(im->g->loop, w);
	close_fd(&fd);
}

static void on_output(struct watch *w, uint32_t events)
{
	(void)events;
	struct import *im = container_of(w, struct import, pipe);
	char *room = buf_room(&im->out, 4096);
	ssize_t n = room ? read(w->fd, room, 4096) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		im->out.n += (size_t)n;
		im->out.p[im->out.n] = 0;
		return;
	}
	unwatch(im, w);
	finish(im);
}

static void on_child(struct watch *w, uint32_t events)
{
	(void)events;
	struct import *im = container_of(w, struct import, child);
	if (waitpid(im->pid, &im->status, WNOHANG) != im->pid)
		im->status = -1;
	unwatch(im, w);
	finish(im);
}

static int spawn(struct import *im, struct err *e)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	auto_free char *into = xasprintf("%s/images/%s.partial", im->g->skep_home, im->row.id);
	char a0[] = "skep-image", a1[] = "import", a2[] = "--source", a4[] = "--into", path[] = "PATH=/usr/bin:/bin";
	char *argv[] = {a0, a1, a2, im->row.source, a4, into, NULL}, *env[] = {path, NULL};
	struct proc_fd fds[] = {{w, 1}, {STDERR_FILENO, 2}};
	im->pid = proc_spawn(&(struct proc_spec){.path = im->g->image_program, .argv = argv, .env = env, .fds = fds, .n_fds = 2}, e);
	if (im->pid < 0)
		return -1;
	auto_fd int pidfd = loop_pidfd(im->pid, e);
	if (pidfd < 0 || fcntl(r, F_SETFL, O_NONBLOCK) || loop_add(im->g->loop, &im->pipe, r, LOOP_IN, e) ||
	    loop_add(im->g->loop, &im->child, pidfd, LOOP_IN, e)) {
		kill(im->pid, SIGKILL); // ours and not yet reaped: the pid is its own
		return -1;
	}
	take_fd(&r);
	take_fd(&pidfd);
	return 0;
}

static int check_import(struct engine *g, const char *source, const char *name, struct err *e)
{
	struct image_row other;
	int n = 0;
	if (source[0] != '/')
		return err_set(e, ERR_INVALID, "\"source\" must be an absolute path");
	if (!fs_exists(AT_FDCWD, source))
		return err_set(e, ERR_INVALID, "no file or directory %.300s", source);
	if (name && (!name_is_valid(name) || !strcmp(name, "host")))
		return err_set(e, ERR_INVALID, "\"%.60s\" is not a name for an image: 1 to 40 of a-z 0-9 -, and not \"host\"", name);
	if (name && !engine_image_get(g, name, &other, e)) {
		image_row_done(&other);
		return err_set(e, ERR_CONFLICT, "an image named %s exists", name);
	}
	for (struct import *im = g->imports; im; im = im->next, n++)
		if (name && im->row.name && !strcmp(im->row.name, name))
			return err_set(e, ERR_CONFLICT, "an image named %s is being imported", name);
	return n < IMPORTS_MAX ? 0 : err_set(e, ERR_LIMIT, "%d imports are under way: wait for one to end", n);
}

void engine_image_import(struct engine *g, const char *source, const char *name, struct done d)
{
	struct err e;
	if (check_import(g, source, name, &e)) {
		task_refuse(d, &e);
		return;
	}
	struct import *im = xcalloc(1, sizeof *im);
	*im = (struct import){.g = g, .done = d, .out = BUF_INIT(1 << 20), .pipe = {.fd = -1, .fn = on_output}, .child = {.fd = -1, .fn = on_child}};
	id_make('i', im->row.id);
	im->row.name = name ? xstrdup(name) : NULL;
	im->row.source = xstrdup(source);
	if (spawn(im, &e)) {
		if (im->pipe.fd >= 0)
			unwatch(im, &im->pipe);
		import_free(im);
		task_refuse(d, &e);
		return;
	}
	im->next = g->imports;
	g->imports = im;
}

struct search {
	const char *id;
	struct image_row found;
	int exact, prefix;
};

static void copy_row(const struct image_row *i, struct image_row *out)
{
	image_row_done(out);
	*out = *i;
	out->name = i->name ? xstrdup(i->name) : NULL;
	out->source = xstrdup(i->source);
}

static void match(void *ctx, const struct image_row *i)
{
	struct search *s = ctx;
	size_t n = strlen(s->id);
	if (!strcmp(i->id, s->id) || (i->name && !strcmp(i->name, s->id))) {
		s->exact++;
		copy_row(i, &s->found);
	} else if (n >= 3 && !strncmp(i->id, s->id, n)) {
		s->prefix++;
		if (!s->exact)
			copy_row(i, &s->found);
	}
}

int engine_image_get(struct engine *g, const char *id, struct image_row *out, struct err *e)
{
	struct search s = {.id = id};
	int rc = store_images(g->store, match, &s, e);
	if (!rc && (s.exact || s.prefix == 1)) {
		*out = s.found;
		return 0;
	}
	image_row_done(&s.found);
	if (rc)
		return -1;
	return s.prefix ? err_set(e, ERR_CONFLICT, "%.40s fits several images: give more of the id", id)
			: err_set(e, ERR_NOT_FOUND, "no image %.40s", id);
}

int engine_images(struct engine *g, void (*each)(void *ctx, const struct image_row *i), void *ctx, struct err *e)
{
	return store_images(g->store, each, ctx, e);
}

struct removal {
	struct done done;
	struct image_row row;
};

static void on_removed(void *ctx, const struct err *e)
{
	struct removal *r = ctx;
	r->done.fn(r->done.ctx, e, e ? NULL : &(struct outcome){.image = &r->row});
	image_row_done(&r->row);
	free(r);
}

static int forget(struct engine *g, const char *id, struct image_row *out, struct err *e)
{
	if (engine_image_get(g, id, out, e))
		return -1;
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.image && !strcmp(b->row.image, out->id))
			return err_set(e, ERR_CONFLICT, "image %s is used by sandbox %s", out->id, b->row.id);
	engine_wrote(g);
	return store_image_drop(g->store, out->id, e); // first: a directory without a row is gc's, the other way round is a lie
}

void engine_image_remove(struct engine *g, const char *id, struct done d)
{
	struct err e;
	struct image_row row = {0};
	if (forget(g, id, &row, &e)) {
		image_row_done(&row);
		task_refuse(d, &e);
		return;
	}
	struct removal *r = xcalloc(1, sizeof *r);
	*r = (struct removal){d, row};
	auto_free char *dir = xasprintf("images/%s", row.id);
	char *dirs[] = {dir, NULL};
	g->backend->ops->remove(g->backend, dirs, (struct reply){on_removed, r});
}
