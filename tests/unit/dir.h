// SPDX-License-Identifier: Apache-2.0
// A directory for each test, gone after it: cmocka_unit_test_setup_teardown(test, setup, teardown), and dir_of(state) in the
// test. Stands behind cmocka.h.
#pragma once
#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <unistd.h>

struct dir {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct dir *d = xcalloc(1, sizeof *d);
	*d = (struct dir){.path = "/tmp/skep-unit-XXXXXX"};
	assert_non_null(mkdtemp(d->path));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = d;
	return d->fd < 0;
}

static int teardown(void **state)
{
	struct dir *d = *state;
	struct err e;
	close(d->fd);
	int rc = fs_remove_tree(AT_FDCWD, d->path, &e);
	free(d);
	return rc;
}

static int dir_of(void **state)
{
	return ((struct dir *)*state)->fd;
}
