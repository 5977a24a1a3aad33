// SPDX-License-Identifier: Apache-2.0
// The job is told first what the last copy has (delta_ask), and then sends what is new. A child carries the streams; the
// copy is written here.
#include "workspace/review_fetch.h"

#include "base/fs.h"
#include "base/mem.h"
#include "workspace/cell_pipe.h"
#include "workspace/repo_git.h"
#include "workspace/review_base.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define ASK_MAX (64u << 20)

// The question as a file: the child sends it while the answer comes.
static int ask_fd(const struct collect_spec *spec, const struct collect_known *known, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(ASK_MAX);
	const struct delta_ask ask = {.file_max = spec->file_max, .total_max = spec->total_max, .paths = spec->paths,
				      .known = known->marks, .n_known = known->n};
	delta_ask_print(&ask, &b);
	return b.overflow ? err_set(e, ERR_LIMIT, "too many paths are named") : git_stdin(b.p, b.n, e);
}

static int fetch_cell(const struct review_fetch *f, int dir, const struct collect_known *known, struct collect_result *out, struct err *e)
{
	struct cell_pipe_child job = {.pid = -1, .out = -1, .said = -1};
	struct delta_in in;
	struct err why;
	auto_fd int ask = ask_fd(&f->spec, known, e);
	const struct cell_pipe cell = {.socket = f->socket, .ticket = f->ticket, .in = ask, .out = -1};
	if (ask < 0 || cell_pipe_start(&cell, &job, e))
		return -1;
	delta_in_fd(&in, job.out);
	int rc = review_collect(dir, &in, &f->spec, known, out, e);
	delta_in_done(&in);
	if (cell_pipe_wait(&job, &why) && !(rc && why.sys == EPIPE)) { // EPIPE: we stopped reading
		*e = why;
		rc = -1;
	}
	return rc;
}

int review_fetch_run(const struct review_fetch *f, struct collect_result *out, struct err *e)
{
	struct collect_known known;
	struct delta_in in;
	int rc;
	if (review_base_ensure(f->shadow, e))
		return -1;
	auto_fd int dir = fs_open(AT_FDCWD, f->shadow, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	collect_known_open(dir, &known);
	if (f->socket) {
		rc = fetch_cell(f, dir, &known, out, e);
	} else {
		delta_in_fd(&in, 0);
		rc = review_collect(dir, &in, &f->spec, &known, out, e);
		delta_in_done(&in);
	}
	collect_known_done(&known);
	return rc;
}
