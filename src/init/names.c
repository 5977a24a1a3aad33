// SPDX-License-Identifier: Apache-2.0
#include "init/names.h"

#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int names_read(struct names *n, int dir, int level, size_t max)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d && fd >= 0)
		close(fd);
	if (!d)
		return -1;
	errno = 0;
	while (n->n < max && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		if (!(n->n & (n->n - 1)))
			n->list = xrealloc(n->list, (n->n ? n->n * 2 : 1) * sizeof *n->list);
		n->list[n->n++] = (struct name){xstrdup(ent->d_name), level};
	}
	int rc = errno;
	closedir(d);
	errno = rc;
	return rc ? -1 : 0;
}

static int by_name(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int rc = strcmp(x->name, y->name);
	return rc ? rc : x->level - y->level;
}

void names_sort(struct names *n)
{
	if (n->n)
		qsort(n->list, n->n, sizeof *n->list, by_name);
}

bool names_have(const struct names *n, const char *name)
{
	size_t lo = 0, hi = n->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int rc = strcmp(n->list[mid].name, name);
		if (!rc)
			return true;
		if (rc < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

void names_done(struct names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->list[i].name);
	free(n->list);
	*n = (struct names){0};
}
