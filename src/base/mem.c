// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);
	if (!p)
		abort();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		abort();
	return p;
}

char *xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
	char *p = xcalloc(n + 1, 1);
	memcpy(p, s, n);
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *p;
	va_start(ap, fmt);
	int n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	return p;
}

void mem_free_ptr(void *pp)
{
	int keep = errno;
	free(*(void **)pp);
	errno = keep;
}

void mem_close_fd(int *fd)
{
	close_fd(fd);
}

void close_fd(int *fd)
{
	int keep = errno;
	if (*fd >= 0)
		close(*fd); // never retried: on Linux the descriptor is gone even after EINTR
	*fd = -1;
	errno = keep;
}

int take_fd(int *fd)
{
	int v = *fd;
	*fd = -1;
	return v;
}

size_t strv_len(char *const *v)
{
	size_t n = 0;
	while (v && v[n])
		n++;
	return n;
}

char **strv_copy(char *const *v)
{
	size_t n = strv_len(v);
	char **c = xcalloc(n + 1, sizeof *c);
	for (size_t i = 0; i < n; i++)
		c[i] = xstrdup(v[i]);
	return c;
}

void strv_add(char ***v, const char *s)
{
	size_t n = strv_len(*v);
	*v = xrealloc(*v, (n + 2) * sizeof **v);
	(*v)[n] = xstrdup(s);
	(*v)[n + 1] = NULL;
}

void strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

void *mem_share(void *p, size_t n)
{
	auto_fd int fd = n ? memfd_create("skep", MFD_CLOEXEC) : -1;
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		return p;
	void *at = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return p;
	free(p);
	return at;
}

#define PAGE 4096u
#define STACK_USED (512u << 10)
#define STACK_KEPT (8u << 10) // our own frame, and what lies below it

void mem_trim_stack(void)
{
	char here;
	uintptr_t end = ((uintptr_t)&here - STACK_KEPT) & ~(uintptr_t)(PAGE - 1);
	madvise((void *)(end - STACK_USED), STACK_USED, MADV_DONTNEED); // where there is no stack it does nothing
}

extern char __bss_start[], _end[]; // by the linker

// Where huge pages are given to everybody, one touched byte of a static buffer would cost each process two megabytes.
void mem_small_pages(void)
{
	uintptr_t start = (uintptr_t)__bss_start & ~(uintptr_t)(PAGE - 1);
	madvise((void *)start, (uintptr_t)_end - start, MADV_NOHUGEPAGE); // a kernel without them refuses
}

bool strv_equal(char *const *a, char *const *b)
{
	size_t n = strv_len(a);
	if (strv_len(b) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i], b[i]))
			return false;
	return true;
}
