// SPDX-License-Identifier: Apache-2.0
// skep-image import --source PATH --into DIR
// skep-image registries [--root DIR]
//
// registries asks the package managers of the host (or reads those of an image) where they fetch from, in the environment
// of the user who calls: {"registries":["host[:port]\tsource"],"env":["K=V"]}. import is for skepd:
// Unpacks a root file system for skepd, which never does such work itself. The last line on stdout is
// {"bytes":N,"files":N,"skipped":N}, or {"error":{"kind":"…","message":"…"}} with exit status 1 and no DIR left.
#include "base/jsonw.h"
#include "base/mem.h"
#include "workspace/helper.h"
#include "workspace/image.h"
#include "workspace/registries.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int print_result(const struct image_result *r)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "bytes", r->bytes);
	jw_ku64(&w, "files", r->files);
	jw_ku64(&w, "skipped", r->skipped);
	jw_close(&w, '}');
	return helper_print(&b);
}

static int print_registries(const char *root)
{
	char *none[] = {NULL};
	struct registries r = {0};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jsonw w = {.b = &b};
	const char *home = getenv("HOME");
	registries_read(home ? home : "/", root, environ, &r);
	jw_open(&w, '{');
	jw_kstrv(&w, "registries", r.list ? r.list : none);
	jw_kstrv(&w, "env", r.env ? r.env : none);
	jw_close(&w, '}');
	registries_done(&r);
	return helper_print(&b);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "registries"))
		return print_registries("/");
	if (argc == 4 && !strcmp(argv[1], "registries") && !strcmp(argv[2], "--root"))
		return print_registries(argv[3]);
	struct image_result r;
	struct err e = {0};
	const char *source = NULL, *into = NULL;
	for (int i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--source"))
			source = argv[i + 1];
		else if (!strcmp(argv[i], "--into"))
			into = argv[i + 1];
	}
	if (argc != 6 || strcmp(argv[1], "import") || !source || !into) {
		fputs("usage: skep-image import --source PATH --into DIR | registries [--root DIR]\n", stderr);
		return 2;
	}
	helper_begin(022, HELPER_GAINS_NONE); // it parses hostile archives
	setlocale(LC_CTYPE, "C.UTF-8");	      // names in pax headers are UTF-8
	return image_import(source, into, &r, &e) ? helper_fail(&e) : print_result(&r);
}
