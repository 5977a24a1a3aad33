// SPDX-License-Identifier: Apache-2.0
#include "workspace/tools.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char home[64];

static void put_file(const char *name)
{
	struct err e;
	auto_free char *path = xasprintf("%s/%s", home, name), *dir = xstrdup(path);
	*strrchr(dir, '/') = 0;
	assert_int_equal(fs_mkdirs(AT_FDCWD, dir, 0755, &e), 0);
	assert_int_equal(fs_write(AT_FDCWD, path, "x", 1, 0600, &e), 0);
}

static int set_up(void **state)
{
	static const char *const files[] = {
		".cargo/bin/cargo",	 ".cargo/credentials.toml", ".cargo/registry/x",      ".rustup/toolchains/t",
		".local/bin/claude",	 ".local/share/claude/v1",  ".local/share/keyrings/k", ".local/share/uv/tools/a",
		".nvm/versions/node/x/bin/node", ".npm-global/bin/a", ".npm-global/.npmrc", ".npm-global/lib/cacert.pem",
		".npm-global/lib/server.pem", ".ssh/id_rsa", "own/bin/tool",
	};
	(void)state;
	if (fmt_to(home, sizeof home, "/tmp/skep-tools-XXXXXX") || !mkdtemp(home))
		return -1;
	for (size_t i = 0; i < countof(files); i++)
		put_file(files[i]);
	auto_free char *bun = xasprintf("%s/.bun", home);
	return symlink(".ssh", bun);
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, home, &e);
}

// 1 = shown, -1 = masked, 0 = neither
static int look(const struct tools *t, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", home, name);
	for (uint32_t i = 0; i < t->n_mounts; i++)
		if (!strcmp(t->mounts[i].dst, path)) {
			assert_false(t->mounts[i].writable);
			return t->mounts[i].src[0] ? 1 : -1;
		}
	return 0;
}

static void only_roots_on_the_path(void **state)
{
	(void)state;
	struct tools t;
	auto_free char *path = xasprintf("/usr/bin:%s/.cargo/bin:%s/own/bin:%s/.bun/bin", home, home, home);
	tools_scan(home, path, &t);
	assert_int_equal(look(&t, ".cargo"), 1);
	assert_int_equal(look(&t, ".rustup"), 1);
	assert_int_equal(look(&t, ".nvm"), 0);
	assert_int_equal(look(&t, ".local/bin"), 0);
	assert_int_equal(look(&t, "own/bin"), 0); // not in the table
	assert_int_equal(look(&t, ".bun"), 0);	   // a link, here to .ssh
	assert_int_equal(look(&t, ".ssh"), 0);
	tools_done(&t);
}

static void hides_credentials(void **state)
{
	(void)state;
	struct tools t;
	auto_free char *path = xasprintf("%s/.cargo/bin:%s/.npm-global/bin", home, home);
	tools_scan(home, path, &t);
	assert_int_equal(look(&t, ".cargo/credentials.toml"), -1);
	assert_int_equal(look(&t, ".npm-global/.npmrc"), -1);
	assert_int_equal(look(&t, ".npm-global/lib/server.pem"), -1);
	assert_int_equal(look(&t, ".npm-global/lib/cacert.pem"), 0);
	assert_int_equal(look(&t, ".cargo/bin/cargo"), 0);
	tools_done(&t);
}

static void local_share_is_never_shown_whole(void **state)
{
	(void)state;
	struct tools t;
	auto_free char *path = xasprintf("%s/.local/bin", home);
	tools_scan(home, path, &t);
	assert_int_equal(look(&t, ".local/bin"), 1);
	assert_int_equal(look(&t, ".local/share/claude"), 1);
	assert_int_equal(look(&t, ".local/share/uv"), 1);
	assert_int_equal(look(&t, ".local/share"), 0);
	assert_int_equal(look(&t, ".local/share/keyrings"), 0);
	tools_done(&t);
}

static void variables_of_what_is_shown(void **state)
{
	(void)state;
	struct tools t;
	auto_free char *path = xasprintf("%s/.cargo/bin", home), *rustup = xasprintf("RUSTUP_HOME=%s/.rustup", home);
	auto_free char *hidden = xasprintf("RUSTUP_HOME=%s/.ssh", home), *odd = xasprintf("RUSTUP_HOME=%s/.cargo/../.ssh", home);
	tools_scan(home, path, &t);
	const struct {
		char *caller;
		const char *found;
	} rows[] = {{NULL, rustup}, {rustup, rustup}, {hidden, NULL}, {odd, NULL}, {(char[]){"RUSTUP_HOME="}, NULL}, {(char[]){"RUSTUP_HOME=/usr"}, "RUSTUP_HOME=/usr"}};
	for (size_t i = 0; i < countof(rows); i++) {
		char *caller[] = {rows[i].caller, NULL}, **env = tools_env(home, &t, NULL, caller);
		assert_int_equal(strv_len(env), rows[i].found ? 1 : 0); // no other tool is shown
		if (rows[i].found)
			assert_string_equal(env[0], rows[i].found);
		strv_free(env);
	}
	tools_done(&t);
	tools_scan(home, "/usr/bin", &t);
	char **none = tools_env(home, &t, NULL, NULL);
	assert_int_equal(strv_len(none), 0);
	strv_free(none);
	tools_done(&t);
}

static void too_many_secrets_hide_the_root(void **state)
{
	(void)state;
	struct tools t;
	for (int i = 0; i < 200; i++) {
		auto_free char *name = xasprintf(".nvm/k%d.pem", i);
		put_file(name);
	}
	auto_free char *path = xasprintf("%s/.nvm/versions/node/x/bin", home);
	tools_scan(home, path, &t);
	assert_int_equal(t.n_mounts, 0);
	tools_done(&t);
}

static void secret_names(void **state)
{
	(void)state;
	assert_true(tools_is_secret("credentials"));
	assert_true(tools_is_secret("id_rsa.bak"));
	assert_true(tools_is_secret("my-Token.json"));
	assert_true(tools_is_secret("x.key"));
	assert_false(tools_is_secret("cargo"));
	assert_false(tools_is_secret("keyboard"));
}

static void cache_gives_the_same(void **state)
{
	(void)state;
	struct tools_cache *c = tools_cache_new(home);
	auto_free char *path = xasprintf("%s/.cargo/bin", home);
	const struct tools *a = tools_get(c, path);
	assert_ptr_equal(a, tools_get(c, path));
	assert_int_equal(tools_get(c, NULL)->n_mounts, 0);
	tools_cache_free(c);
}

static void expect_path(const char *path, const struct tools *t, const char *base, enum profile p, const char *want)
{
	auto_free char *got = tools_path(path, t, base, p);
	assert_string_equal(got, want);
}

static void path_inside(void **state)
{
	(void)state;
	char src[] = "/h/.cargo", dst[] = "/h/.cargo", none[] = "", mask[] = "/h/.cargo/credentials";
	struct cell_mount m[] = {{.src = src, .dst = dst}, {.src = none, .dst = mask}};
	struct tools t = {m, 2};
	expect_path(NULL, NULL, NULL, PROFILE_USER, "/usr/local/bin:/usr/bin:/bin");
	expect_path("", NULL, NULL, PROFILE_ROOT, "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
	expect_path("/h/.cargo/bin:/h/x:/usr/bin:/usr/bin:rel::/usr/../h", &t, NULL, PROFILE_USER,
		    "/h/.cargo/bin:/usr/bin:/usr/local/bin:/bin");
	expect_path("/p/node_modules/.bin:/q", &t, "/p", PROFILE_USER, "/p/node_modules/.bin:/usr/local/bin:/usr/bin:/bin");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_roots_on_the_path, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hides_credentials, set_up, tear_down),
		cmocka_unit_test_setup_teardown(local_share_is_never_shown_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(variables_of_what_is_shown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_many_secrets_hide_the_root, set_up, tear_down),
		cmocka_unit_test_setup_teardown(cache_gives_the_same, set_up, tear_down),
		cmocka_unit_test(secret_names),
		cmocka_unit_test(path_inside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
