// SPDX-License-Identifier: Apache-2.0
// Each request has a child, which opens the volume, does the work (init/volume.c) and sends the descriptor of its answer over a
// socket of its own: `struct err` with the kind ERR_NONE and the descriptor, or an error alone. The nursery only passes it on.
// A child that a cell holds up (by a lease on a file, for one) holds up nobody else.
#include "cell/volwork.h"

#include "base/fs.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "init/volume.h"
#include "model/msg.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct volwork {
	struct watch w;
	const struct dirwork *of;
	uint32_t id;
};

// --- the child ---

static int volwork_run(const struct dirwork *d, struct frame *f, uint32_t owner, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct volume_op op;
	if (volume_op_read(&w, &op, e))
		return -1;
	auto_free char *path = xasprintf("%s/volumes/%s", d->skep_home, op.volume);
	auto_fd int dir = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (dir < 0)
		return err_set(e, ERR_NOT_FOUND, "the directory of the volume is gone (volumes/%s in SKEP_HOME)", op.volume);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != d->nursery)
		_exit(1);
	int fd = volume_do(dir, &op, f->fd, owner, e);
	volume_op_done(&op);
	return fd;
}

static void volwork_send(int to, const struct err *e, int fd)
{
	struct iovec v = {(void *)e, sizeof *e};
	union {
		char space[CMSG_SPACE(sizeof fd)];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	if (fd >= 0) {
		m.msg_control = control.space;
		m.msg_controllen = sizeof control.space;
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	_exit(sendmsg(to, &m, 0) < 0);
}

// --- the nursery ---

static int volwork_receive(int from, struct err *said)
{
	int fd = -1;
	struct iovec v = {said, sizeof *said};
	union {
		char space[CMSG_SPACE(sizeof fd)];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
	ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	if (n != sizeof *said)
		err_set(said, ERR_UNAVAILABLE, "the work in a volume was interrupted; try again");
	return fd;
}

static void volwork_on_end(struct watch *w, uint32_t events)
{
	struct volwork *k = container_of(w, struct volwork, w);
	struct err said = {0};
	int fd = w->fd;
	(void)events;
	loop_del(k->of->loop, w);
	auto_fd int answer = volwork_receive(fd, &said);
	close(fd);
	if (said.kind == ERR_NONE && answer >= 0)
		chan_send_fd(k->of->skepd, M_OK, k->id, NULL, 0, answer);
	else
		control_send_err(k->of->skepd, k->id, &said);
	loop_bury(k->of->loop, k, free);
}

void volwork_begin(struct dirwork *d, struct frame *f, uint32_t owner)
{
	struct err e = {0};
	int sv[2] = {-1, -1};
	pid_t pid = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) ? -1 : fork();
	if (!pid) {
		d->in_child();
		int fd = volwork_run(d, f, owner, &e);
		volwork_send(sv[1], &e, fd);
	}
	close_fd(&sv[1]);
	struct volwork *k = xcalloc(1, sizeof *k);
	*k = (struct volwork){.w = {.fd = -1, .fn = volwork_on_end}, .of = d, .id = f->id};
	if (pid < 0 || loop_add(d->loop, &k->w, sv[0], LOOP_IN, &e)) {
		err_set(&e, ERR_SYSTEM, "could not start the work in a volume");
		control_send_err(d->skepd, f->id, &e);
		close_fd(&sv[0]);
		free(k);
	}
}
