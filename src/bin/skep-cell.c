// SPDX-License-Identifier: Apache-2.0
// skep-cell: the nursery and, forked from it, one supervisor per cell. Static, no library.
#include "base/durable.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cell/nursery.h"
#include "isolate/probe.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print_probe(const char *home)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct err e;
	if (probe_run(home, &b, &e)) {
		fprintf(stderr, "skep-cell: %s\n", e.msg);
		return 1;
	}
	buf_byte(&b, '\n');
	return fs_write_all(STDOUT_FILENO, b.p, b.n, &e) ? 1 : 0;
}

// What skepd wrote without waiting: stdin is a list of base/durable.h. What fails is said on stdout.
static int sync_home(const char *home)
{
	auto_buf struct buf list = BUF_INIT(16u << 20);
	struct err e;
	auto_fd int dir = fs_open(AT_FDCWD, home, O_RDONLY | O_DIRECTORY, 0, &e);
	if (dir >= 0 && !fs_read_fd(STDIN_FILENO, &list, &e) && !durable_sync(dir, &list, &e))
		return 0;
	printf("%s", e.msg);
	return 1;
}

int main(int argc, char **argv)
{
	mem_small_pages();
	log_init("skep-cell", LOG_WARN);
	fault_init();
	if (argc == 2 && !strcmp(argv[1], "--nursery"))
		return nursery_main(3);
	if (argc == 3 && !strcmp(argv[1], "--probe"))
		return print_probe(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "--sync"))
		return sync_home(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--plan"))
		return nursery_print_plan();
	if (argc == 2 && !strcmp(argv[1], "--faults")) {
		fault_list();
		return 0;
	}
	fprintf(stderr, "skep-cell: started by skepd; by hand only: skep-cell --probe SKEP_HOME | --plan | --faults\n");
	return 2;
}
