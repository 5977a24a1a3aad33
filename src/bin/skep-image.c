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
#include "workspace/image.h"
#include "workspace/registries.h"
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

extern char **environ;

static int print(struct buf *b)
{
	buf_byte(b, '\n');
	return fputs(buf_cstr(b), stdout) < 0 || fflush(stdout) ? 1 : 0;
}

static int print_error(const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_key(&w, "error");
	jw_open(&w, '{');
	jw_kstr(&w, "kind", err_kind_name(e->kind));
	jw_kstr(&w, "message", e->msg);
	jw_close(&w, '}');
	jw_close(&w, '}');
	print(&b);
	return 1;
}

static int print_result(const struct image_result *r)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "bytes", r->bytes);
	jw_ku64(&w, "files", r->files);
	jw_ku64(&w, "skipped", r->skipped);
	jw_close(&w, '}');
	return print(&b);
}

// What parses hostile archives needs no privilege it does not have, and leaves no core.
static void prepare(void)
{
	const struct rlimit no_core = {0, 0};
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	umask(022);
	setlocale(LC_CTYPE, "C.UTF-8"); // names in pax headers are UTF-8
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
	return print(&b);
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
	prepare();
	return image_import(source, into, &r, &e) ? print_error(&e) : print_result(&r);
}
