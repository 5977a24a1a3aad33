// SPDX-License-Identifier: Apache-2.0
#include "model/setup.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static void add_text(struct sha256 *h, const char *s)
{
	uint8_t there = s != NULL;
	sha256_add(h, &there, 1);
	if (s)
		sha256_add(h, s, strlen(s) + 1);
}

static void add_list(struct sha256 *h, char *const *v)
{
	for (; v && *v; v++)
		add_text(h, *v);
	add_text(h, NULL); // no list runs into the next
}

void setup_key(const struct setup *s, char out[SHA256_HEX])
{
	struct sha256 h;
	uint8_t profile = (uint8_t)s->profile;
	sha256_init(&h);
	add_text(&h, "skep setup 1"); // another form of layers is another key
	add_text(&h, s->repo);
	add_text(&h, s->image);
	add_text(&h, s->ws_path);
	sha256_add(&h, &profile, 1);
	add_list(&h, s->commands);
	add_list(&h, s->env);
	add_list(&h, s->hide);
	for (size_t i = 0; i < s->n_files; i++) {
		add_text(&h, s->files[i].path);
		add_text(&h, s->files[i].sha256);
	}
	sha256_end_hex(&h, out);
}

bool setup_is_lock(const char *name)
{
	static const char *const names[] = {
		"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock", "poetry.lock", "uv.lock",
		"pdm.lock", "Pipfile.lock", "environment.yml", "Cargo.lock", "go.sum", "pom.xml", "gradle.lockfile", "build.gradle", "build.gradle.kts",
		"Gemfile.lock", "composer.lock", "mix.lock", "Package.resolved", "flake.lock", "conan.lock", "stack.yaml.lock", "rust-toolchain.toml",
	};
	for (size_t i = 0; i < countof(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return str_has_suffix(name, ".txt") && (str_has_prefix(name, "requirements") || str_has_prefix(name, "constraints"));
}

char **setup_argv(char *const *commands)
{
	static const char script[] = "n=$#; i=0; for c do i=$((i+1)); printf 'setup %d/%d: %s\\n' \"$i\" \"$n\" \"$c\" >&2; "
				     "/bin/sh -c \"$c\" </dev/null || exit; done";
	char **argv = NULL;
	strv_add(&argv, "/bin/sh");
	strv_add(&argv, "-c");
	strv_add(&argv, script);
	strv_add(&argv, "setup");
	for (; commands && *commands; commands++)
		strv_add(&argv, *commands);
	return argv;
}
