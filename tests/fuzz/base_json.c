// SPDX-License-Identifier: Apache-2.0
// Our reader against another one, jansson: both take the same texts, and what ours printed is, read by the other, the
// value that the other read itself. Its functions have the names of ours, so it is loaded, not linked.
#include "base/json.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REJECT_DUPLICATES 1 // jansson's flag
#define ERROR_ROOM 1024	    // for its json_error_t, 256 bytes

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	void *(*loadb)(const char *text, size_t n, size_t flags, void *error);
	int (*equal)(const void *a, const void *b);
	void (*delete)(void *v); // what the last reference does, and a fresh list or object has one
} other;

static void *symbol(void *lib, const char *name)
{
	void *p = lib ? dlsym(lib, name) : NULL;
	if (p)
		return p;
	fprintf(stderr, "base_json: %s\n", dlerror());
	exit(1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	void *lib = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
	other.loadb = symbol(lib, "json_loadb");
	other.equal = symbol(lib, "json_equal");
	other.delete = symbol(lib, "json_delete");
	return 0;
}

static void *other_read(const char *p, size_t n)
{
	_Alignas(16) char error[ERROR_ROOM];
	return other.loadb(p, n, REJECT_DUPLICATES, error);
}

static void printed_is(const json_t *ours, unsigned indent, const void *theirs)
{
	auto_buf struct buf b = BUF_INIT(64 << 20);
	json_print(&b, ours, indent);
	void *again = b.overflow ? NULL : other_read(b.p, b.n);
	if (!again || !other.equal(again, theirs))
		abort();
	other.delete(again);
}

// Every value is reached by walking, and found where the walk says it is.
static void walk(const json_t *v, unsigned depth)
{
	const char *key;
	const json_t *m;
	size_t i, n = 0;
	if (depth > JSON_DEPTH)
		abort();
	json_array_foreach(v, i, m)
	{
		if (i < 16 && json_array_get(v, i) != m)
			abort();
		walk(m, depth + 1);
		n++;
	}
	json_object_foreach(v, key, m)
	{
		if (n < 16 && json_object_get(v, key) != m)
			abort();
		walk(m, depth + 1);
		n++;
	}
	if (n != json_array_size(v) + json_object_size(v))
		abort();
}

// What we refuse and the other may take: more levels, and a NUL, which it overlooks behind a number or a word.
static bool is_ours_to_refuse(const char *p, size_t n)
{
	unsigned boxes = 0;
	for (size_t i = 0; i < n; i++)
		boxes += p[i] == '[' || p[i] == '{';
	return boxes > JSON_DEPTH || memchr(p, 0, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = {0};
	char *text = malloc(size ? size : 1); // exactly as long: a look behind the end is found
	if (!text)
		abort();
	memcpy(text, data, size);
	json_t *ours = json_read(text, size, &e);
	void *theirs = other_read(text, size);
	if (!ours != !theirs && (ours || !is_ours_to_refuse(text, size)))
		abort();
	if (ours && memchr(text, 0, size))
		abort();
	if (!ours && (e.kind != ERR_INVALID || strncmp(e.msg, "not JSON: ", 10)))
		abort();
	free(text); // the tree stands on its own
	if (ours) {
		walk(ours, 0);
		printed_is(ours, 0, theirs);
		printed_is(ours, 2, theirs);
	}
	json_decref(ours);
	if (theirs)
		other.delete(theirs);
	return 0;
}
