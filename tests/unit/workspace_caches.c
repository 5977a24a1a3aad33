// SPDX-License-Identifier: Apache-2.0
// Where package caches are found: usual places, variables, files, and what is never taken for one.
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/caches.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

static char home[64];

static int set_up(void **state)
{
	(void)state;
	memcpy(home, "/tmp/skep-caches-XXXXXX", 24);
	return mkdtemp(home) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, home, &e);
}

static void dir(const char *path)
{
	struct err e;
	auto_free char *full = xasprintf("%s/%s", home, path);
	assert_int_equal(fs_mkdirs(AT_FDCWD, full, 0755, &e), 0);
}

static void file(const char *path, const char *text)
{
	struct err e;
	auto_free char *full = xasprintf("%s/%s", home, path);
	assert_int_equal(fs_write(AT_FDCWD, full, text, strlen(text), 0644, &e), 0);
}

// "SRC>DST …" below the home and below HOME inside.
static char *found(char *const *env)
{
	struct cell_mount m[CACHES_MAX];
	auto_buf struct buf b = BUF_INIT(10000);
	uint32_t n = caches_find(home, env, "/home/skep", m);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(m[i].cache && !m[i].writable);
		assert_memory_equal(m[i].src, home, strlen(home));
		assert_memory_equal(m[i].dst, "/home/skep/", 11);
		buf_fmt(&b, "%s%s>%s", i ? " " : "", m[i].src + strlen(home) + 1, m[i].dst + 11);
		free(m[i].src);
		free(m[i].dst);
	}
	return buf_take(&b);
}

static void expect(char *const *env, const char *want)
{
	auto_free char *got = found(env);
	assert_string_equal(got ? got : "", want);
}

static void usual_places(void **state)
{
	(void)state;
	expect(NULL, "");
	dir(".npm/_cacache");
	dir(".cache/pip");
	dir(".cargo/registry");
	dir("go/pkg/mod/cache/download");
	dir(".m2/repository");
	expect(NULL, ".npm/_cacache>.npm/_cacache .cache/pip>.cache/pip .cargo/registry>.cargo/registry "
		     "go/pkg/mod/cache/download>go/pkg/mod/cache/download .m2/repository>.m2/repository");
}

static void variables_and_files(void **state)
{
	(void)state;
	dir("x/npm/_cacache");
	dir("x/pip");
	dir("x/go/pkg/mod/cache/download");
	dir("x/repo");
	dir(".m2");
	dir(".config/go");
	dir("x/build");
	file(".npmrc", "#cache=/nowhere\nregistry=https://x.test/\ncache=${HOME}/x/npm\n");
	file(".m2/settings.xml", "<settings>\n <localRepository> ${user.home}/x/repo </localRepository></settings>");
	file(".config/go/env", "GOCACHE=~/x/build\n");
	auto_free char *xdg = xasprintf("XDG_CACHE_HOME=%s/x", home), *gopath = xasprintf("GOPATH=%s/x/go:/other", home);
	char *env[] = {xdg, gopath, NULL};
	expect(env, "x/npm/_cacache>.npm/_cacache x/pip>.cache/pip x/go/pkg/mod/cache/download>go/pkg/mod/cache/download x/build>.cache/go-build "
		    "x/repo>.m2/repository");
	auto_free char *npm = xasprintf("npm_config_cache=%s/none", home);
	char *other[] = {npm, NULL};
	expect(other, "x/build>.cache/go-build x/repo>.m2/repository"); // a variable stands above a file
}

static void never_a_cache(void **state)
{
	(void)state;
	auto_free char *link = xasprintf("%s/.npm", home);
	dir(".cache");
	file(".cache/pip", "a file");
	assert_int_equal(symlink("/", link), 0);
	char relative[] = "UV_CACHE_DIR=relative", dots[] = "PIP_CACHE_DIR=/tmp/../etc", *env[] = {relative, dots, NULL};
	struct cell_mount m[CACHES_MAX];
	uint32_t n = caches_find(home, env, "/home/skep", m);
	for (uint32_t i = 0; i < n; i++) { // as root /etc is our own: what may be shown is for the engine's rules to say
		assert_string_equal(m[i].src, "/etc");
		free(m[i].src);
		free(m[i].dst);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(usual_places, set_up, tear_down),
		cmocka_unit_test_setup_teardown(variables_and_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(never_a_cache, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
