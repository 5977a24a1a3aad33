// SPDX-License-Identifier: Apache-2.0
// All work with git, for skepd, which never does such work itself. See workspace/repo.h and docs/workspaces.md.
//
// The last line on stdout is the result, a JSON object, or {"error":{"kind":"…","message":"…"}} with exit status 1.
// What is going on comes as plain lines on stderr.
#include "base/fault.h"
#include "base/mem.h"
#include "workspace/helper.h"
#include "workspace/repo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: skep-repo fetch --url URL --into REPO.git [--ref REF]\n"
	"       skep-repo checkout --repo REPO.git --commit ID --into TREE [--url URL] [--ref REF] [--host HOST]... [--repos DIR]\n"
	"       skep-repo gitlayer --dir DIR --into OUT [--objects PATH] [--alternates DIR]...\n"
	"       skep-repo pin --dir DIR --shadow SHADOW.git [--alternates DIR]... [--paths-from-stdin] [--t0 NS]\n"
	"       skep-repo copy --dir DIR --into TREE [--objects PATH] [--alternates DIR]...\n"
	"       skep-repo --help | --faults\n"
	"Started by skepd. --url - reads the URL from standard input, --url @NAME from a variable.\n";

enum {
	OPT_URL = 1,
	OPT_INTO = 2,
	OPT_REF = 4,
	OPT_REPO = 8,
	OPT_COMMIT = 16,
	OPT_DIR = 32,
	OPT_OBJECTS = 64,
	OPT_SHADOW = 128,
	OPT_REPOS = 256,
	OPT_HOST = 512,
	OPT_ALTERNATES = 1024,
	OPT_PATHS = 2048,
	OPT_T0 = 4096
};

static const struct verb {
	const char *name;
	unsigned must, may;
	int (*run)(const struct repo_args *a, struct buf *out, struct err *e);
} verbs[] = {
	{"fetch", OPT_URL | OPT_INTO, OPT_REF, repo_fetch},
	{"checkout", OPT_REPO | OPT_COMMIT | OPT_INTO, OPT_URL | OPT_REF | OPT_HOST | OPT_REPOS | OPT_OBJECTS,
	 repo_checkout},
	{"gitlayer", OPT_DIR | OPT_INTO, OPT_OBJECTS | OPT_ALTERNATES, repo_gitlayer},
	{"pin", OPT_DIR | OPT_SHADOW, OPT_PATHS | OPT_ALTERNATES | OPT_T0, repo_pin},
	{"copy", OPT_DIR | OPT_INTO, OPT_OBJECTS | OPT_ALTERNATES, repo_copy},
};

static unsigned set(struct repo_args *a, const char *name, char *value)
{
	const struct {
		const char *name;
		unsigned bit;
		const char **to;
	} options[] = {
		{"--url", OPT_URL, &a->url},
		{"--into", OPT_INTO, &a->into},
		{"--ref", OPT_REF, &a->ref},
		{"--repo", OPT_REPO, &a->repo},
		{"--commit", OPT_COMMIT, &a->commit},
		{"--dir", OPT_DIR, &a->dir},
		{"--objects", OPT_OBJECTS, &a->objects},
		{"--shadow", OPT_SHADOW, &a->shadow},
		{"--repos", OPT_REPOS, &a->repos},
		{"--t0", OPT_T0, &a->t0},
	};
	for (size_t i = 0; i < countof(options); i++)
		if (!strcmp(name, options[i].name)) {
			*options[i].to = value;
			return options[i].bit;
		}
	if (!strcmp(name, "--host")) {
		strv_add(&a->hosts, value);
		return OPT_HOST;
	}
	if (!strcmp(name, "--alternates")) {
		strv_add(&a->allowed, value);
		return OPT_ALTERNATES;
	}
	return 0;
}

static const struct verb *parse(int argc, char **argv, struct repo_args *a)
{
	const struct verb *v = NULL;
	unsigned given = 0;
	for (size_t i = 0; argc > 1 && i < countof(verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			v = &verbs[i];
	for (int i = 2; v && i < argc; i++) {
		unsigned bit = 0;
		if (!strcmp(argv[i], "--paths-from-stdin")) {
			a->paths = true;
			bit = OPT_PATHS;
		} else if (i + 1 < argc) {
			bit = set(a, argv[i], argv[i + 1]);
			i++;
		}
		if (!(bit & (v->must | v->may)))
			return NULL;
		given |= bit;
	}
	return v && (given & v->must) == v->must ? v : NULL;
}

// No terminal: neither git nor ssh may ask anybody. A group of its own, so that who ends us ends git as well.
static void prepare(void)
{
	if (setsid() < 0)
		setpgid(0, 0);
	helper_begin(022, HELPER_KEEPS_RIGHTS); // ssh and credential helpers are the caller's own
	fault_init();
}

static void relative(const char **path, char **owned)
{
	if (!*path || **path == '/')
		return;
	auto_free char *cwd = getcwd(NULL, 0);
	*owned = xasprintf("%s/%s", cwd ? cwd : "", *path);
	*path = *owned;
}

static int run(const struct verb *v, struct repo_args *a)
{
	struct err e = {0};
	auto_buf struct buf out = BUF_INIT(16u << 20);
	auto_free char *real = NULL, *into = NULL, *repo = NULL, *shadow = NULL;
	relative(&a->into, &into);
	relative(&a->repo, &repo);
	relative(&a->shadow, &shadow);
	if (a->dir) {
		real = realpath(a->dir, NULL);
		if (!real) {
			err_sys(&e, "%s", a->dir);
			e.kind = ERR_NOT_FOUND;
			return helper_fail(&e);
		}
		a->dir = real;
	}
	return v->run(a, &out, &e) ? helper_fail(&e) : helper_print(&out);
}

int main(int argc, char **argv)
{
	struct repo_args a = {0};
	if (argc == 2 && !strcmp(argv[1], "--faults")) {
		fault_list();
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return fputs(usage, stdout) < 0;
	const struct verb *v = parse(argc, argv, &a);
	if (!v) {
		fputs(usage, stderr);
		return 2;
	}
	prepare();
	int rc = run(v, &a);
	strv_free(a.hosts);
	strv_free(a.allowed);
	return rc;
}
