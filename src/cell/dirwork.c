// SPDX-License-Identifier: Apache-2.0
#include "cell/dirwork.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "init/layer.h"
#include "model/msg.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct work {
	struct watch w;
	const struct dirwork *of;
	uint32_t id;
	bool tells; // its answer has content
};

static void on_end(struct watch *w, uint32_t events)
{
	struct work *k = container_of(w, struct work, w);
	struct chan *skepd = k->of->skepd;
	union {
		struct err e;
		struct layer_result r;
	} said;
	struct err e;
	int fd = w->fd;
	(void)events;
	loop_del(k->of->loop, w);
	ssize_t n = read(fd, &said, sizeof said);
	close(fd);
	auto_buf struct buf b = BUF_INIT(64);
	if (n == sizeof said.r) {
		if (k->tells)
			layer_result_write(&b, &said.r);
		chan_send_buf(skepd, M_OK, k->id, &b);
	} else {
		err_set(&e, ERR_UNAVAILABLE, "the work on a directory was interrupted; try again");
		control_send_err(skepd, k->id, n == sizeof said.e ? &said.e : &e);
	}
	loop_bury(k->of->loop, k, free);
}

static void begin(struct dirwork *d, struct frame *f, bool tells,
		  int (*run)(const struct dirwork *d, struct wire *w, struct layer_result *r, struct err *e))
{
	struct wire w = {.p = f->p, .n = f->n};
	struct work *k = xcalloc(1, sizeof *k);
	struct layer_result r = {0};
	struct err e = {0};
	int p[2] = {-1, -1};
	pid_t pid = pipe2(p, O_CLOEXEC) ? -1 : fork();
	if (!pid) {
		d->in_child();
		bool failed = run(d, &w, &r, &e);
		_exit(write(p[1], failed ? (void *)&e : (void *)&r, failed ? sizeof e : sizeof r) < 0);
	}
	close_fd(&p[1]);
	*k = (struct work){.w = {.fd = -1, .fn = on_end}, .of = d, .id = f->id, .tells = tells};
	if (pid < 0 || loop_add(d->loop, &k->w, p[0], LOOP_IN, &e)) {
		err_set(&e, ERR_SYSTEM, "could not start the work on a directory");
		control_send_err(d->skepd, f->id, &e);
		close_fd(&p[0]);
		free(k);
	}
}

// Only what lies below SKEP_HOME, named without tricks.
static int remove_one(const char *skep_home, const char *path, struct err *e)
{
	size_t n = strlen(skep_home);
	if (strncmp(path, skep_home, n) || path[n] != '/' || strstr(path, "/../") || str_has_suffix(path, "/.."))
		return err_set(e, ERR_DENIED, "%s does not lie below SKEP_HOME", path);
	return fault(FAULT_GC_TREE, e) ? -1 : fs_remove_tree(AT_FDCWD, path, e);
}

static int run_remove(const struct dirwork *d, struct wire *w, struct layer_result *r, struct err *e)
{
	char **paths = wire_get_strv(w);
	(void)r;
	if (!paths)
		return err_set(e, ERR_INVALID, "malformed request for a removal");
	setpriority(PRIO_PROCESS, 0, 10); // nobody waits for it
	for (char **v = paths; *v; v++)
		if (remove_one(d->skep_home, *v, e))
			return -1;
	return 0;
}

static int run_layer(const struct dirwork *d, struct wire *w, struct layer_result *r, struct err *e)
{
	struct layer_op op;
	auto_free char *path = xasprintf("%s/layers", d->skep_home);
	auto_fd int layers = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	if (layers < 0 || layer_op_read(w, &op, e))
		return -1;
	// Whoever asks again after our parent's end must not meet us at work under the same name.
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != d->nursery)
		_exit(1);
	return layer_do(layers, &op, r, e);
}

void dirwork_remove(struct dirwork *d, struct frame *f)
{
	begin(d, f, false, run_remove);
}

void dirwork_layer(struct dirwork *d, struct frame *f)
{
	begin(d, f, true, run_layer);
}
