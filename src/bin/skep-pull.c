// SPDX-License-Identifier: Apache-2.0
// skep-pull --into DIR
//
// Started by skepd: fetches one image from a registry into DIR, which exists, as an OCI layout (pull/layout.h). What to
// fetch, from where and with which login stands on standard input (pull/pull.h), since arguments can be read by everybody.
// Lines of progress on stdout; the last line is {"digest":…,"have":…,"config":{…}}, or {"error":{"kind":"…","message":"…"}}
// with exit status 1. Killed at any moment it leaves a directory in which the next pull goes on.
#include "base/fs.h"
#include "base/mem.h"
#include "pull/pull.h"
#include "pull/seal.h"
#include "workspace/helper.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int pull_dir = -1;

// Nobody reads any more: skepd is gone.
static void print_progress(void *ctx, struct buf *line)
{
	(void)ctx;
	if (helper_print(line))
		_exit(1);
}

static int enter_seal(struct err *e)
{
	return pull_seal(pull_dir, e);
}

static int read_job(struct pull_job *j, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(PULL_JOB_MAX);
	return fs_read_fd(STDIN_FILENO, &text, e) || pull_job_read(buf_cstr(&text), text.n, j, e) ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct pull_job j = {0};
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(8u << 20);
	struct jsonw w = {.b = &b};
	if (argc != 3 || strcmp(argv[1], "--into")) {
		fputs("usage: skep-pull --into DIR    (started by skepd)\n", stderr);
		return 2;
	}
	helper_begin(077, HELPER_GAINS_NONE);
	pull_dir = fs_open(AT_FDCWD, argv[2], O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &e);
	if (pull_dir < 0 || read_job(&j, &e))
		return helper_fail(&e);
	struct pull_report r = {.said = print_progress, .seal = enter_seal};
	jw_open(&w, '{');
	int rc = pull_image(&j, pull_dir, &r, &w, &e);
	jw_close(&w, '}');
	pull_job_done(&j);
	return rc ? helper_fail(&e) : helper_print(&b);
}
