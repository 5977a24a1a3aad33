// SPDX-License-Identifier: Apache-2.0
#include "cli/registries.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/home.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sha256.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/home.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CACHE_MS 3600000
#define ANSWER_MAX (1u << 20)

extern char **environ;

void known_done(struct known *r)
{
	strv_free(r->list);
	strv_free(r->env);
	*r = (struct known){0};
}

static void hash_file(struct sha256 *h, const char *path)
{
	struct stat st = {0};
	if (stat(path, &st))
		st = (struct stat){0};
	sha256_add(h, &st.st_ino, sizeof st.st_ino);
	sha256_add(h, &st.st_size, sizeof st.st_size);
	sha256_add(h, &st.st_mtim, sizeof st.st_mtim);
}

// What the answer depends on: the tools' variables and files. Most that is installed or changed shows in one of them.
static void cache_key(const char *root, char out[SHA256_HEX])
{
	static const char *const vars[] = {"HOME=", "PATH=", "npm_config_", "NPM_CONFIG_", "PIP_", "UV_", "CARGO_", "GO", "MAVEN_"};
	static const char *const below_home[] = {".npmrc", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml",
						 ".cargo/config.toml", ".cargo/config", ".config/go/env", ".m2/settings.xml"};
	static const char *const files[] = {"/etc/npmrc", "/etc/pip.conf", "/etc/uv/uv.toml", "/etc/apt/sources.list",
					    "/etc/apt/sources.list.d", "/etc/maven/settings.xml", "/usr/bin", "/usr/local/bin"};
	const char *home = getenv("HOME");
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, root, strlen(root) + 1);
	for (char **v = environ; *v; v++)
		for (size_t i = 0; i < countof(vars); i++)
			if (str_has_prefix(*v, vars[i]))
				sha256_add(&h, *v, strlen(*v) + 1);
	for (size_t i = 0; i < countof(below_home); i++) {
		auto_free char *path = xasprintf("%s/%s", home ? home : "", below_home[i]);
		hash_file(&h, path);
	}
	for (size_t i = 0; i < countof(files); i++)
		hash_file(&h, files[i]);
	sha256_end_hex(&h, out);
}

static int read_answer(const struct buf *b, struct known *out, struct err *e)
{
	struct known r = {0};
	auto_json json_t *j = json_read(b->n ? b->p : "", b->n, e);
	if (!j || json_get_strv(j, "registries", &r.list, e) || json_get_strv(j, "env", &r.env, e)) {
		known_done(&r);
		return -1;
	}
	out->list = r.list ? r.list : xcalloc(1, sizeof *r.list);
	out->env = r.env ? r.env : xcalloc(1, sizeof *r.env);
	return 0;
}

// The cache: the key in the first line, the answer behind it.
static bool read_cache(const char *path, const char *key, struct known *out)
{
	struct err ignored;
	struct stat st;
	auto_buf struct buf b = BUF_INIT(ANSWER_MAX);
	uint64_t now = clock_unix_ms();
	if (stat(path, &st) || fs_read(AT_FDCWD, path, &b, &ignored))
		return false;
	uint64_t made = (uint64_t)st.st_mtim.tv_sec * 1000;
	size_t n = strlen(key);
	if (made > now || now - made > CACHE_MS || b.n <= n || memcmp(b.p, key, n) || b.p[n] != '\n')
		return false;
	buf_cut(&b, n + 1);
	return !read_answer(&b, out, &ignored);
}

static void write_cache(const char *path, const char *key, const struct buf *answer)
{
	struct err ignored;
	auto_buf struct buf b = BUF_INIT(2 * ANSWER_MAX);
	buf_fmt(&b, "%s\n", key);
	buf_add(&b, answer->p, answer->n);
	if (fs_replace(AT_FDCWD, path, b.p, b.n, 0600, &ignored))
		return; // the next one asks again
}

// The directory of an image; "/" stands for the host. Owned.
static char *root_of(const char *image, const char *home, struct err *e)
{
	if (!image || !strcmp(image, "host"))
		return xstrdup("/");
	auto_api struct api a = API_CLOSED;
	auto_free char *path = api_path("/v1/images", image, NULL);
	auto_json json_t *j = api_open(&a, e) ? NULL : api_json(&a, "GET", path, NULL, e);
	return j ? xasprintf("%s/images/%s", home, json_str(j, "id")) : NULL;
}

static int ask(char *root, struct buf *answer, struct err *e)
{
	char name[] = "skep-image", verb[] = "registries", option[] = "--root";
	char *argv[] = {name, verb, option, root, NULL};
	int status;
	auto_free char *program = home_program("skep-image", e);
	if (!program || proc_run(program, argv, answer, &status, e))
		return err_wrap(e, "--net registries");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return err_set(e, ERR_SYSTEM, "--net registries: the package managers could not be asked");
	return 0;
}

int known_registries(const char *image, struct known *out, struct err *e)
{
	char key[SHA256_HEX];
	auto_free char *home = home_dir(getenv("HOME"), e), *root = home ? root_of(image, home, e) : NULL;
	if (!root)
		return -1;
	auto_free char *cache = xasprintf("%s/registries.cache", home);
	cache_key(root, key);
	if (read_cache(cache, key, out))
		return 0;
	auto_buf struct buf answer = BUF_INIT(ANSWER_MAX);
	if (ask(root, &answer, e) || read_answer(&answer, out, e))
		return -1;
	write_cache(cache, key, &answer);
	return 0;
}
