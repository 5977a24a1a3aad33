// SPDX-License-Identifier: Apache-2.0
// Names that never land, and what a person is told to look at twice.
#include "base/mem.h"
#include "model/risk.h"
#include "model/treename.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static bool is_git(const char *s)
{
	return treename_is_git(s, strlen(s));
}

static void test_git_spellings(void **state)
{
	static const char *const yes[] = {
		".git", ".GIT", ".gIt", ".git.", ".git...", ".git ", ".git . .", "git~1", "GIT~1", "git~9", ".git::$INDEX_ALLOCATION",
		".git:stream", ".git\\config", ".g\u200bit", ".gi\u200dt", "\u200c.git", ".git\u2060", ".git\ufeff", ".g\u00adit",
		"\uff0egit", "\u2024git", ".\uff47it", ".g\u0131t", ".g\u0130t", ".git\x01", ".\U000e0067git", ".git\u200b. ",
	};
	static const char *const no[] = {".gitignore", ".github", "git", "git~", "git~10x", "agit", ".git2", "x.git", ".gi", "", ".", "..", "gitk~1",
					 ".gitmodules", "g.it"};
	(void)state;
	for (size_t i = 0; i < countof(yes); i++)
		if (!is_git(yes[i]))
			fail_msg("not seen as .git: %s", yes[i]);
	for (size_t i = 0; i < countof(no); i++)
		if (is_git(no[i]))
			fail_msg("seen as .git: %s", no[i]);
	assert_true(treename_path_has_git("a/b/.GIT/hooks"));
	assert_true(treename_path_has_git(".git"));
	assert_false(treename_path_has_git("a/.github/x"));
}

static bool has_flag(const char *path, const char *want)
{
	const char *flag, *reason;
	for (size_t at = 0; (flag = risk_of_path(path, &at, &reason));) {
		assert_true(strlen(reason) > 5);
		if (!strcmp(flag, want))
			return true;
	}
	return false;
}

static void test_table(void **state)
{
	static const char *const rows[][2] = {
		{"next.config.mjs", "build"}, {"a/playwright.config.ts", "build"}, {"Gruntfile.js", "build"}, {"x/BUILD", "build"}, {"lib/defs.bzl", "build"},
		{"a.targets", "build"}, {"SConstruct", "build"}, {".gdbinit", "shell"}, {"default.nix", "shell"}, {".lvimrc", "editor"},
		{".kiro/hooks/x.json", "agent"}, {"opencode.jsonc", "agent"}, {".crush.json", "agent"},
		{".gitattributes", "git"}, {"a/b/.gitmodules", "git"}, {".husky/pre-commit", "hook"}, {".github/workflows/x.yml", "ci"},
		{".GitHub/Workflows/x.yml", "ci"}, {".gitlab-ci.yml", "ci"}, {"Makefile", "build"}, {"sub/makefile", "build"},
		{"build.rs", "build"}, {"x/conftest.py", "build"}, {"setup.py", "build"}, {"app/build.gradle", "build"},
		{"app/build.gradle.kts", "build"}, {".cargo/config.toml", "build"}, {".npmrc", "registry"}, {"package-lock.json", "lock"},
		{"Cargo.lock", "lock"}, {".envrc", "shell"}, {".bashrc", "shell"}, {".vscode/tasks.json", "editor"}, {".idea/x.xml", "editor"},
		{".mcp.json", "agent"}, {".claude/settings.json", "agent"}, {"CLAUDE.md", "agent"}, {"AGENTS.md", "agent"},
		{".cursor/rules/x.mdc", "agent"}, {".devcontainer/devcontainer.json", "container"}, {"Dockerfile", "container"},
		{"docker/Dockerfile.dev", "container"}, {".skep.yaml", "skep"}, {".pre-commit-config.yaml", "hook"},
	};
	static const char *const plain[] = {"src/main.c", "README.md", "lib/hooks/useState.ts", "docs/make.md", "package.json", "pyproject.toml",
					    "a.txt", "src/git.c", ".editorconfig", ".gitignore"};
	const char *reason;
	(void)state;
	for (size_t i = 0; i < countof(rows); i++)
		if (!has_flag(rows[i][0], rows[i][1]))
			fail_msg("%s is not flagged as %s", rows[i][0], rows[i][1]);
	for (size_t i = 0; i < countof(plain); i++) {
		size_t at = 0;
		const char *flag = risk_of_path(plain[i], &at, &reason);
		if (flag)
			fail_msg("%s is flagged as %s", plain[i], flag);
	}
}

static enum risk_link link_of(const char *path, const char *target)
{
	return risk_of_link(path, target, strlen(target));
}

static void test_links(void **state)
{
	(void)state;
	assert_int_equal(link_of("a/b", "../c"), RISK_LINK_IN);
	assert_int_equal(link_of("a/b", "c/../../d"), RISK_LINK_IN);
	assert_int_equal(link_of("a", "b/c"), RISK_LINK_IN);
	assert_int_equal(link_of("a", "../c"), RISK_LINK_OUT);
	assert_int_equal(link_of("a/b", "../../c"), RISK_LINK_OUT);
	assert_int_equal(link_of("a/b", "c/../../../d/e"), RISK_LINK_OUT);
	assert_int_equal(link_of("a", "/etc/passwd"), RISK_LINK_OUT);
	assert_int_equal(link_of("a", ""), RISK_LINK_OUT);
	assert_int_equal(link_of("a", ".git/config"), RISK_LINK_GIT);
	assert_int_equal(link_of("a/b", "../.GIT/hooks"), RISK_LINK_GIT);
}

static struct risk_text text_of(const char *s)
{
	struct risk_text t = {0};
	risk_of_text(s, strlen(s), &t);
	return t;
}

static void test_text(void **state)
{
	(void)state;
	assert_int_equal(text_of("plain\ttext\r\nüöä 漢字 🙂\n").bidi, 0);
	assert_int_equal(text_of("plain\ttext\r\nüöä 漢字 🙂\n").control, 0);
	assert_int_equal(text_of("plain\ttext\r\nüöä 漢字 🙂\n").invisible, 0);
	assert_int_equal(text_of("a \u202e b \u2066 c\n").bidi, 2);
	assert_int_equal(text_of("a\u200bb\n").invisible, 1);
	assert_int_equal(text_of("\ufeffbegins with a mark\n").invisible, 0);
	assert_int_equal(text_of("x\ufeffy\n").invisible, 1);
	assert_int_equal(text_of("esc \x1b[31m\n").control, 1);
	assert_int_equal(text_of("over\rwritten\n").control, 1);
	assert_int_equal(text_of("c1 \xc2\x9b\n").control, 1);
	assert_int_equal(text_of("ab\ncdef").longest, 4);
}

static void test_secrets(void **state)
{
	// put together here, so that no scanner takes this file for a leak
	static const char *const parts[][2] = {
		{"AKI", "A0123456789ABCDEF"}, {"gh", "p_0123456789abcdefghijABCDEFGHIJ0123456789"}, {"x = gl", "pat-0123456789abcdefghij"},
		{"-----BEGIN RSA ", "PRIVATE KEY-----"}, {"-----BEGIN OPENSSH ", "PRIVATE KEY-----"}, {"API_KEY=", "q8Zr2LxT0vWm5Yb1Nc7D"},
		{"password: \"", "hJ7gk29dKq0Lz81m\""},
	};
	static const char *const plain[] = {"the token is passed on\n", "password = os.environ[\"PASSWORD\"]\n", "x = 0123456789abcdef0123456789abcdef\n",
					    "secret: ${{ secrets.TOKEN }}\n", "token = get_token_from_somewhere_else()\n", "AKIA\n",
					    "integrity sha512-abc0123456789abcdef0123456789==\n", "-----BEGIN CERTIFICATE-----\n"};
	(void)state;
	for (size_t i = 0; i < countof(parts); i++) {
		auto_free char *line = xasprintf("%s%s\n", parts[i][0], parts[i][1]);
		if (!risk_secret(line, strlen(line)))
			fail_msg("not seen: %s", line);
	}
	for (size_t i = 0; i < countof(plain); i++)
		if (risk_secret(plain[i], strlen(plain[i])))
			fail_msg("taken for a secret: %s", plain[i]);
}

static bool scripts(const char *a, const char *b)
{
	return risk_scripts_differ(a, strlen(a), b, strlen(b));
}

static bool sections(const char *a, const char *b)
{
	return risk_build_sections_differ(a, strlen(a), b, strlen(b));
}

static void test_parts_of_files(void **state)
{
	(void)state;
	assert_false(scripts("{\"scripts\":{\"a\":\"b\"},\"version\":\"1\"}", "{\"version\":\"2\", \"scripts\": {\"a\": \"b\"}}"));
	assert_true(scripts("{\"scripts\":{\"a\":\"b\"}}", "{\"scripts\":{\"a\":\"c\"}}"));
	assert_true(scripts("{}", "{\"scripts\":{\"postinstall\":\"c\"}}"));
	assert_true(scripts("{}", "{ not json"));
	assert_true(scripts("", "{\"scripts\":{}}"));
	assert_false(sections("[project]\nversion=\"1\"\n[build-system]\nx=1\n", "[project]\nversion=\"2\"\n[build-system]\nx=1\n"));
	assert_true(sections("[build-system]\nx=1\n", "[build-system]\nx=2\n"));
	assert_true(sections("", "[tool.hatch.build.hooks.custom]\n"));
}

static void test_odd_names(void **state)
{
	static const char *const odd[] = {"a:b", "a\\b", "con", "NUL.txt", "end.", "end "};
	(void)state;
	for (size_t i = 0; i < countof(odd); i++)
		assert_true(treename_is_odd(odd[i], strlen(odd[i])));
	assert_false(treename_is_odd("console.c", 9));
	assert_false(treename_is_odd(".hidden", 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_git_spellings), cmocka_unit_test(test_table),	 cmocka_unit_test(test_links),
		cmocka_unit_test(test_text),	      cmocka_unit_test(test_secrets),	 cmocka_unit_test(test_parts_of_files),
		cmocka_unit_test(test_odd_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
